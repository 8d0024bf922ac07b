//! `hark serve`: a library over HTTP, with a page to search and listen.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args as ClapArgs;
use hark_library::{LibraryModel, ModelEmbedder, OpenOptions};
use hark_serve::{Options, serve};

use super::inputs::ThreadArgs;
use crate::home::Home;
use crate::library::{LibraryArgs, tell_of_everyday};
use crate::progress;

const EXAMPLES: &str = "Examples:
  hark serve                                   (then open http://127.0.0.1:7878)
  hark serve --name archive --port 8000
  HARK_TOKEN=$(openssl rand -hex 16) hark serve --address 0.0.0.0

The page searches as you type and plays the recordings. Programs use the API described at /openapi.json; \
/health and /metrics are for monitoring. Changes by `hark index` are visible at once.

By default only this machine can reach the server. With any other --address, clients must send the token in the \
variable HARK_TOKEN. The connection is not encrypted: on open networks, put a TLS proxy in front of the server.";

/// The variable that holds the token: other users of the machine can see arguments.
const TOKEN: &str = "HARK_TOKEN";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    library: LibraryArgs,
    /// Address to listen on; any other than a loopback address requires a token
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    address: IpAddr,
    /// Port to listen on; 0 picks a free one
    #[arg(long, value_name = "N", default_value = "7878")]
    port: u16,
    /// The library's model, if it has moved: a name or a folder
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Maximum size of an uploaded recording, in megabytes
    #[arg(long, value_name = "MB", default_value = "64")]
    upload_megabytes: u64,
    /// Maximum number of connections
    #[arg(long, value_name = "N", default_value = "256")]
    connections: usize,
    /// Maximum queued searches; further requests get 503
    #[arg(long, value_name = "N", default_value = "64")]
    waiting: usize,
    #[command(flatten)]
    threads: ThreadArgs,
}

pub fn run(args: &Args) -> Result<()> {
    let home = Home::find()?;
    // Searches run side by side, each on one thread.
    let open = OpenOptions {
        model: args.model.clone(),
        compute: hark_encode::Compute::cpu(1),
        cancelled: Some(progress::stopped),
    };
    let library = args.library.open(&home, &open)?;
    tell_of_everyday(args.model.is_none(), &library);
    let store = library.store().clone();
    let model = LibraryModel::of(&home.models(), store.settings(), args.model.as_deref())?;
    let threads = args.threads.count().get();
    let embedder = ModelEmbedder::new(model, open.compute.clone()).cancelled_by(open.cancelled);
    eprintln!("loading the model");
    embedder
        .embed_text(&["silence"])
        .context("cannot load the text encoder")?;
    let token = std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
    let options = Options {
        address: SocketAddr::new(args.address, args.port),
        token,
        name: args.library.name.clone(),
        most_connections: args.connections,
        searches: threads,
        waiting: args.waiting,
        // Listening takes far longer than a search: uploads leave half of the places to others.
        uploads: (threads / 2).max(1),
        upload_seconds: 600.0,
        upload_bytes: args.upload_megabytes << 20,
        ..Options::default()
    };
    serve(
        store,
        Arc::new(embedder),
        options,
        &mut |address| eprintln!("http://{address}/ is ready; press Ctrl-C to stop"),
        &progress::stopped,
    )?;
    Ok(())
}
