//! The requests of agents.

use super::tls::Peer;
use super::{Controller, Event};
use crate::credentials::is_for;
use crate::record::{Batch, Fetched, Registration};
use crate::store::MAX_BATCH;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use std::sync::Arc;
use std::sync::atomic::Ordering;

type Response<T> = Result<T, (StatusCode, String)>;

/// The routes for agents.
pub(super) fn router(controller: Arc<Controller>) -> Router {
    Router::new()
        .route("/v1/pinglist", post(pinglist))
        .route("/v1/report", post(report))
        .route("/v1/show", post(show))
        .layer(DefaultBodyLimit::max(MAX_BATCH))
        .with_state(controller)
}

/// Checks that the host that a request concerns is the host that sent it.
fn is_own(controller: &Controller, peer: &Peer, host: &str) -> Response<()> {
    let why = match &peer.identity {
        Some((fingerprint, _)) if controller.state.is_denied(fingerprint) => "the certificate was withdrawn",
        // A connection can last longer than the life of the certificate that its handshake has checked.
        Some((_, end)) if *end < (controller.clock.unix_us() / 1_000_000) as i64 => "the certificate has ended",
        _ if peer.certificate.as_ref().is_some_and(|certificate| is_for(certificate, host)) => return Ok(()),
        _ => "the certificate is not that of this host",
    };
    controller.state.refused.fetch_add(1, Ordering::Relaxed);
    Err((StatusCode::FORBIDDEN, why.to_string()))
}

async fn pinglist(
    State(controller): State<Arc<Controller>>, ConnectInfo(peer): ConnectInfo<Peer>,
    Json(registration): Json<Registration>,
) -> Response<Json<Fetched>> {
    is_own(&controller, &peer, &registration.host)?;
    let host = registration.host.clone();
    let now = controller.state.now();
    let fetched = {
        let _indices = controller.state.inventory();
        let mut registry = controller.state.registry.lock();
        registry.rotate(controller.clock.unix_us());
        registry.fetch(registration, now)
    };
    let (fetched, is_new) = fetched.map_err(|why| (StatusCode::CONFLICT, why))?;
    if let Some((_, end)) = peer.identity {
        controller.state.ends.lock().insert(host.clone(), end);
    }
    if is_new {
        controller.emit(Event::Agent(host));
        controller.dirty.store(true, Ordering::Relaxed);
    }
    Ok(Json(fetched))
}

/// Parses the batch in a request, and checks that the host that sent it can have measured it. Removes the results of
/// targets that are not in the inventory: the inventory may have changed after the probes. Returns the batch and its
/// bytes.
fn own_batch(controller: &Controller, peer: &Peer, bytes: Bytes) -> Response<(Arc<Batch>, Bytes)> {
    let parsed = Batch::parse(&bytes).and_then(|batch| batch.check_times().map(|()| batch));
    let mut batch = parsed.map_err(|why| {
        controller.state.refused.fetch_add(1, Ordering::Relaxed);
        (StatusCode::BAD_REQUEST, why)
    })?;
    is_own(controller, peer, &batch.host)?;
    let inventory = controller.state.inventory();
    let bytes = if batch.retain_targets(|name| inventory.index(name).is_some()) { batch.emit().into() } else { bytes };
    Ok((Arc::new(batch), bytes))
}

/// The index of the host that made a batch.
fn host_of(controller: &Controller, batch: &Batch) -> Response<u32> {
    let unknown = || (StatusCode::CONFLICT, format!("the inventory has no host {}", batch.host));
    controller.state.inventory().index(&batch.host).ok_or_else(unknown)
}

async fn report(
    State(controller): State<Arc<Controller>>, ConnectInfo(peer): ConnectInfo<Peer>, bytes: Bytes,
) -> Response<&'static str> {
    let (batch, bytes) = own_batch(&controller, &peer, bytes)?;
    let now = controller.state.now();
    let count = (batch.probes.len() + batch.traces.len()).max(1);
    {
        let _indices = controller.state.inventory();
        let host = host_of(&controller, &batch)?;
        controller.quota.take(host, count, now).map_err(|why| {
            controller.state.refused.fetch_add(1, Ordering::Relaxed);
            (StatusCode::TOO_MANY_REQUESTS, why)
        })?;
        // Alarms and suspects do not need the disk, so the batch is counted now. It counts only once, even if it is
        // written later.
        controller.count(&batch, now);
    }
    let written = controller.writer.write(batch.clone(), bytes).await;
    written.map_err(|why| {
        let _indices = controller.state.inventory();
        if let Ok(host) = host_of(&controller, &batch) {
            controller.quota.give_back(host, count);
        }
        (StatusCode::SERVICE_UNAVAILABLE, why)
    })?;
    Ok("stored")
}

/// Handles a batch that an agent sends while an earlier batch of the agent waits for space on the disk.
async fn show(
    State(controller): State<Arc<Controller>>, ConnectInfo(peer): ConnectInfo<Peer>, bytes: Bytes,
) -> Response<&'static str> {
    let (batch, _) = own_batch(&controller, &peer, bytes)?;
    host_of(&controller, &batch)?;
    controller.count(&batch, controller.state.now());
    Ok("seen")
}
