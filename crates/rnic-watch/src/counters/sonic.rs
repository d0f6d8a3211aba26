//! Counters of a SONiC switch: the hashes of COUNTERS_DB in its Redis.

use super::{Group, MAX_VALUES, Paused, Priority, Queue, Reading};
use redis::{Client, Commands, Connection, IntoConnectionInfo, RedisError};
use rnic_transport::BitRate;
use std::collections::BTreeMap;
use std::time::Duration;

/// Number of the Redis database COUNTERS_DB.
const COUNTERS_DB: u8 = 2;
/// Number of the Redis database CONFIG_DB, which contains the speeds of the ports.
const CONFIG_DB: u8 = 4;
/// Number of objects that are read in one round trip.
const BATCH: usize = 256;

type Fields = BTreeMap<String, String>;

/// The counters of a SONiC switch.
pub struct Sonic {
    client: Client,
    timeout: Duration,
    connection: Option<Connection>,
}

impl Sonic {
    /// Creates a reader for the switch whose Redis has this address: `redis://HOST:PORT`, or `unix:///PATH` on the
    /// switch itself, where PATH is `var/run/redis/redis.sock`. Does not connect yet.
    ///
    /// # Errors
    /// The address does not have this form.
    pub fn new(address: &str, timeout: Duration) -> Result<Sonic, String> {
        let refused = |error: RedisError| format!("`{address}` is not an address of Redis: {error}");
        let info = address.into_connection_info().map_err(refused)?;
        Ok(Sonic { client: Client::open(info).map_err(refused)?, timeout, connection: None })
    }

    /// Reads all counters. If Redis cannot be reached, the call fails, and the next call connects again.
    ///
    /// # Errors
    /// Returns one sentence if Redis cannot be reached, or its response does not have the format of COUNTERS_DB.
    pub fn read(&mut self) -> Result<Reading, String> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect().map_err(|error| format!("Redis is away: {error}"))?,
        };
        let reading = read(&mut connection).map_err(|error| format!("Redis failed: {error}"))?;
        self.connection = Some(connection);
        Ok(reading)
    }

    fn connect(&self) -> Result<Connection, RedisError> {
        let connection = self.client.get_connection_with_timeout(self.timeout)?;
        connection.set_read_timeout(Some(self.timeout))?;
        connection.set_write_timeout(Some(self.timeout))?;
        Ok(connection)
    }
}

/// Selects another database for the connection.
fn select(connection: &mut Connection, number: u8) -> Result<(), RedisError> {
    redis::cmd("SELECT").arg(number).exec(connection)
}

/// Reads the hashes with these keys.
fn hashes(connection: &mut Connection, keys: &[String]) -> Result<Vec<Fields>, RedisError> {
    let mut all = Vec::with_capacity(keys.len());
    for keys in keys.chunks(BATCH) {
        let mut pipeline = redis::pipe();
        for key in keys {
            pipeline.hgetall(key);
        }
        let read: Vec<Fields> = pipeline.query(connection)?;
        all.extend(read);
    }
    Ok(all)
}

fn read(connection: &mut Connection) -> Result<Reading, RedisError> {
    let mut reading = Reading { sources: vec![("redis", true)], ..Reading::default() };
    select(connection, COUNTERS_DB)?;
    let map = |connection: &mut Connection, name: &str| -> Result<Vec<(String, String)>, RedisError> {
        let map: Fields = connection.hgetall(name)?;
        Ok(map.into_iter().take(MAX_VALUES / 64).collect())
    };
    let ports = map(connection, "COUNTERS_PORT_NAME_MAP")?;
    let queues = map(connection, "COUNTERS_QUEUE_NAME_MAP")?;
    let groups = map(connection, "COUNTERS_PG_NAME_MAP")?;
    let keys = |map: &[(String, String)], prefix: &str| -> Vec<String> {
        map.iter().map(|(_, oid)| format!("{prefix}:{oid}")).collect()
    };
    let of_ports = hashes(connection, &keys(&ports, "COUNTERS"))?;
    let of_queues = hashes(connection, &keys(&queues, "COUNTERS"))?;
    let of_groups = hashes(connection, &keys(&groups, "COUNTERS"))?;
    // PERIODIC_WATERMARKS are cleared once per telemetry interval; the watermarks in COUNTERS are cleared at every poll
    // of the switch.
    let queue_marks = hashes(connection, &keys(&queues, "PERIODIC_WATERMARKS"))?;
    let group_marks = hashes(connection, &keys(&groups, "PERIODIC_WATERMARKS"))?;
    select(connection, CONFIG_DB)?;
    let speeds = hashes(connection, &ports.iter().map(|(name, _)| format!("PORT|{name}")).collect::<Vec<_>>())?;
    for (((port, _), fields), config) in ports.iter().zip(&of_ports).zip(&speeds) {
        let mbps = config
            .get("speed")
            .and_then(|speed| speed.parse::<u64>().ok())
            .filter(|mbps| (1..=10_000_000).contains(mbps));
        of_port(port, fields, mbps.map(|mbps| BitRate::from_bps(mbps * 1_000_000)), &mut reading);
    }
    for (((name, _), fields), marks) in queues.iter().zip(&of_queues).zip(&queue_marks) {
        let Some((port, Ok(queue))) = name.split_once(':').map(|(port, queue)| (port, queue.parse::<u8>())) else {
            reading.malformed += 1;
            continue;
        };
        let mut get = |what: &str| number(fields, &format!("SAI_QUEUE_STAT_{what}"), &mut reading.malformed);
        let mut queue = Queue {
            port: port.to_string(),
            queue: Some(queue),
            packets: get("PACKETS"),
            bytes: get("BYTES"),
            dropped: get("DROPPED_PACKETS"),
            marked: get("WRED_ECN_MARKED_PACKETS"),
            trimmed: get("TRIM_PACKETS"),
            occupancy: get("CURR_OCCUPANCY_BYTES"),
            watermark: get("SHARED_WATERMARK_BYTES"),
        };
        let mark = number(marks, "SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES", &mut reading.malformed);
        queue.watermark = mark.or(queue.watermark);
        reading.queues.push(queue);
    }
    for (((name, _), fields), marks) in groups.iter().zip(&of_groups).zip(&group_marks) {
        let Some((port, Ok(group))) = name.split_once(':').map(|(port, group)| (port, group.parse::<u8>())) else {
            reading.malformed += 1;
            continue;
        };
        let mut get = |what: &str| {
            let name = format!("SAI_INGRESS_PRIORITY_GROUP_STAT_{what}");
            let mark = number(marks, &name, &mut reading.malformed);
            mark.or_else(|| number(fields, &name, &mut reading.malformed))
        };
        reading.groups.push(Group {
            port: port.to_string(),
            group,
            dropped: get("DROPPED_PACKETS"),
            shared_watermark: get("SHARED_WATERMARK_BYTES"),
            headroom_watermark: get("XOFF_ROOM_WATERMARK_BYTES"),
        });
    }
    Ok(reading)
}

/// The value of a counter; `None` if the switch does not have this counter.
fn number(fields: &Fields, name: &str, malformed: &mut u64) -> Option<u64> {
    let text = fields.get(name).filter(|text| !text.is_empty() && *text != "N/A")?;
    let number = text.parse().ok();
    *malformed += u64::from(number.is_none());
    number
}

fn of_port(port: &str, fields: &Fields, speed: Option<BitRate>, reading: &mut Reading) {
    for index in 0..8 {
        let mut get = |prefix: &str, what: &str| {
            number(fields, &format!("{prefix}_PORT_STAT_PFC_{index}_{what}"), &mut reading.malformed)
        };
        let measured = get("SAI", "RX_PAUSE_DURATION_US").or_else(|| get("SAI", "RX_PAUSE_DURATION"));
        let estimated = get("EST", "RX_PAUSE_DURATION_US");
        let priority = Priority {
            port: port.to_string(),
            priority: index,
            speed,
            frames_received: get("SAI", "RX_PKTS"),
            frames_sent: get("SAI", "TX_PKTS"),
            pauses: get("SAI", "ON2OFF_RX_PKTS").or_else(|| get("EST", "ON2OFF_RX_PKTS")),
            paused: match (measured, estimated) {
                (Some(us), _) => Paused::Measured(us as f64),
                (None, Some(us)) => Paused::Estimated(us as f64),
                (None, None) => Paused::Unknown,
            },
            pausing_us: get("SAI", "TX_PAUSE_DURATION_US").map(|us| us as f64),
            ..Priority::default()
        };
        if priority.frames_received.is_some() || priority.frames_sent.is_some() {
            reading.priorities.push(priority);
        }
    }
}
