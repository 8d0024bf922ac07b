//! `hark serve`: a library over HTTP, with a page to search and listen.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args as ClapArgs;
use hark_library::{LibraryModel, ModelEmbedder, OpenOptions};
use hark_serve::{Options, serve};

use super::inputs::ThreadArgs;
use crate::home::Home;
use crate::library::LibraryArgs;
use crate::progress;

const EXAMPLES: &str = "Examples:
  hark serve                                   (then open http://127.0.0.1:7878)
  hark serve --name archive --port 8000
  HARK_TOKEN=$(openssl rand -hex 16) hark serve --address 0.0.0.0

The page searches as you type and plays the recordings. The same answers are there for programs: the API is
described at /openapi.json, and /health and /metrics are for those who run it. What `hark index` changes
meanwhile is seen at once.

Nobody but this machine can reach the server, unless --address says so. It then asks for the token that the
variable HARK_TOKEN holds. The connection is not encrypted: put a server with TLS before it on open networks.";

/// The variable that holds the token, which as an argument others could see.
const TOKEN: &str = "HARK_TOKEN";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    library: LibraryArgs,
    /// The address to listen at; any but this machine's own needs a token
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    address: IpAddr,
    /// The port; 0 takes a free one
    #[arg(long, value_name = "N", default_value = "7878")]
    port: u16,
    /// Where the library's model is, if it is elsewhere now
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Most megabytes of a recording that is sent to search by
    #[arg(long, value_name = "MB", default_value = "64")]
    upload_megabytes: u64,
    /// Most connections at once
    #[arg(long, value_name = "N", default_value = "256")]
    connections: usize,
    /// Most searches that wait while others are at work; more are sent away
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
    let store = args.library.open(&home, &open)?.store().clone();
    let model = LibraryModel::of(&home.models(), store.settings(), args.model.as_deref())?;
    let threads = args.threads.count().get();
    let embedder = ModelEmbedder::new(model, open.compute.clone()).cancelled_by(open.cancelled);
    eprintln!("loading the model");
    embedder
        .embed_text(&["silence"])
        .context("the model cannot read")?;
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
        &mut |address| eprintln!("http://{address}/ is ready; Ctrl-C ends it"),
        &progress::stopped,
    )?;
    Ok(())
}
