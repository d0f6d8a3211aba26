/* The symbols of libibverbs of which only the existence matters, and those with an older version than the usual one.
 *
 * Programs that are linked with the libraries of vendors (libmlx5, libefa) need the functions between libibverbs and
 * its providers, but call them only if they open such a device, which this library never lists. Programs that were
 * linked with the version 1.0 of 2006, whose structures differ, get an error instead of wrong results.
 *
 * The vendors' libraries of rdma-core 33 (Debian 11) name the private interface IBVERBS_PRIVATE_33, and those of 34 and
 * later IBVERBS_PRIVATE_34. The loader starts no program without the version that its libraries name. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>

#define ABSENT_IN_33(name) \
    intptr_t rnic_33_##name(void); \
    intptr_t rnic_33_##name(void) { \
        errno = EOPNOTSUPP; \
        return 0; \
    } \
    __asm__(".symver rnic_33_" #name "," #name "@IBVERBS_PRIVATE_33");

#define ABSENT(name) \
    intptr_t name(void); \
    intptr_t name(void) { \
        errno = EOPNOTSUPP; \
        return 0; \
    } \
    ABSENT_IN_33(name)

#define OLD(name) \
    intptr_t rnic_old_##name(void); \
    intptr_t rnic_old_##name(void) { \
        fputs("rnic: the program calls " #name " of libibverbs 1.0, which has other structures; build it anew\n", stderr); \
        errno = ENOSYS; \
        return 0; \
    } \
    __asm__(".symver rnic_old_" #name "," #name "@IBVERBS_1.0");

OLD(ibv_ack_async_event)
OLD(ibv_ack_cq_events)
OLD(ibv_alloc_pd)
OLD(ibv_attach_mcast)
OLD(ibv_close_device)
OLD(ibv_create_ah)
OLD(ibv_create_cq)
OLD(ibv_create_qp)
OLD(ibv_create_srq)
OLD(ibv_dealloc_pd)
OLD(ibv_dereg_mr)
OLD(ibv_destroy_ah)
OLD(ibv_destroy_cq)
OLD(ibv_destroy_qp)
OLD(ibv_destroy_srq)
OLD(ibv_detach_mcast)
OLD(ibv_free_device_list)
OLD(ibv_get_async_event)
OLD(ibv_get_cq_event)
OLD(ibv_get_device_guid)
OLD(ibv_get_device_list)
OLD(ibv_get_device_name)
OLD(ibv_modify_qp)
OLD(ibv_modify_srq)
OLD(ibv_open_device)
OLD(ibv_query_device)
OLD(ibv_query_gid)
OLD(ibv_query_pkey)
OLD(ibv_query_port)
OLD(ibv_query_qp)
OLD(ibv_query_srq)
OLD(ibv_reg_mr)
OLD(ibv_resize_cq)

ABSENT_IN_33(verbs_register_driver_33)

/* This one is in use: perftest asks for the type of a GID. Its arguments are the context, port, index and result. It is
 * weak, so that tests can link a library without functions. */
__attribute__((weak)) int ibv_query_gid_type(void *context, uint8_t port, int index, int *type);
int rnic_33_ibv_query_gid_type(void *context, uint8_t port, int index, int *type);
int rnic_33_ibv_query_gid_type(void *context, uint8_t port, int index, int *type) {
    return ibv_query_gid_type(context, port, index, type);
}
__asm__(".symver rnic_33_ibv_query_gid_type,ibv_query_gid_type@IBVERBS_PRIVATE_33");

ABSENT(__ioctl_final_num_attrs)
ABSENT(__verbs_log)
ABSENT(_verbs_init_and_alloc_context)
ABSENT(execute_ioctl)
ABSENT(ibv_cmd_advise_mr)
ABSENT(ibv_cmd_alloc_dm)
ABSENT(ibv_cmd_alloc_mw)
ABSENT(ibv_cmd_alloc_pd)
ABSENT(ibv_cmd_attach_mcast)
ABSENT(ibv_cmd_close_xrcd)
ABSENT(ibv_cmd_create_ah)
ABSENT(ibv_cmd_create_counters)
ABSENT(ibv_cmd_create_cq)
ABSENT(ibv_cmd_create_cq_ex)
ABSENT(ibv_cmd_create_flow)
ABSENT(ibv_cmd_create_flow_action_esp)
ABSENT(ibv_cmd_create_qp)
ABSENT(ibv_cmd_create_qp_ex)
ABSENT(ibv_cmd_create_qp_ex2)
ABSENT(ibv_cmd_create_rwq_ind_table)
ABSENT(ibv_cmd_create_srq)
ABSENT(ibv_cmd_create_srq_ex)
ABSENT(ibv_cmd_create_wq)
ABSENT(ibv_cmd_dealloc_mw)
ABSENT(ibv_cmd_dealloc_pd)
ABSENT(ibv_cmd_dereg_mr)
ABSENT(ibv_cmd_destroy_ah)
ABSENT(ibv_cmd_destroy_counters)
ABSENT(ibv_cmd_destroy_cq)
ABSENT(ibv_cmd_destroy_flow)
ABSENT(ibv_cmd_destroy_flow_action)
ABSENT(ibv_cmd_destroy_qp)
ABSENT(ibv_cmd_destroy_rwq_ind_table)
ABSENT(ibv_cmd_destroy_srq)
ABSENT(ibv_cmd_destroy_wq)
ABSENT(ibv_cmd_detach_mcast)
ABSENT(ibv_cmd_free_dm)
ABSENT(ibv_cmd_get_context)
ABSENT(ibv_cmd_modify_cq)
ABSENT(ibv_cmd_modify_flow_action_esp)
ABSENT(ibv_cmd_modify_qp)
ABSENT(ibv_cmd_modify_qp_ex)
ABSENT(ibv_cmd_modify_srq)
ABSENT(ibv_cmd_modify_wq)
ABSENT(ibv_cmd_open_qp)
ABSENT(ibv_cmd_open_xrcd)
ABSENT(ibv_cmd_poll_cq)
ABSENT(ibv_cmd_post_recv)
ABSENT(ibv_cmd_post_send)
ABSENT(ibv_cmd_post_srq_recv)
ABSENT(ibv_cmd_query_context)
ABSENT(ibv_cmd_query_device_any)
ABSENT(ibv_cmd_query_mr)
ABSENT(ibv_cmd_query_port)
ABSENT(ibv_cmd_query_qp)
ABSENT(ibv_cmd_query_srq)
ABSENT(ibv_cmd_read_counters)
ABSENT(ibv_cmd_reg_dm_mr)
ABSENT(ibv_cmd_reg_dmabuf_mr)
ABSENT(ibv_cmd_reg_mr)
ABSENT(ibv_cmd_req_notify_cq)
ABSENT(ibv_cmd_rereg_mr)
ABSENT(ibv_cmd_resize_cq)
ABSENT(ibv_read_ibdev_sysfs_file)
ABSENT(verbs_allow_disassociate_destroy)
ABSENT(verbs_init_cq)
ABSENT(verbs_open_device)
ABSENT(verbs_register_driver_34)
ABSENT(verbs_set_ops)
ABSENT(verbs_uninit_context)
ABSENT(ibv_copy_ah_attr_from_kern)
ABSENT(ibv_copy_path_rec_from_kern)
ABSENT(ibv_copy_path_rec_to_kern)
ABSENT(ibv_copy_qp_attr_from_kern)

/* The beginning of the library in a process. A constructor in Rust would also run in programs in Rust that contain the
 * static library. */
void rnic_on_load(void);
__attribute__((constructor)) static void load(void) {
    rnic_on_load();
}

/* The only symbol of version 1.1 that is not the usual one of its name. */
intptr_t rnic_register_driver(void);
intptr_t rnic_register_driver(void) {
    errno = EOPNOTSUPP;
    return 0;
}
__asm__(".symver rnic_register_driver,ibv_register_driver@IBVERBS_1.1");
