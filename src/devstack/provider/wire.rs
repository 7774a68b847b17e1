//! Connections that can be closed without an answer.
//!
//! A handler can only answer; what a test needs is a connection that ends before the first byte. So every connection
//! carries a switch, and once it is thrown, each further read or write fails, which makes the server close it.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// A listener whose connections can be cut.
pub(super) struct CutListener(pub(super) TcpListener);

/// A connection that can be cut.
pub(super) struct CutStream {
    inner: TcpStream,
    cut: Cut,
}

/// The switch of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Cut(Arc<AtomicBool>);

impl Cut {
    /// From now on nothing is read from this connection and nothing is written to it.
    pub(super) fn throw(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn check(&self) -> io::Result<()> {
        if self.0.load(Ordering::SeqCst) {
            Err(io::ErrorKind::ConnectionAborted.into())
        } else {
            Ok(())
        }
    }
}

impl Listener for CutListener {
    type Io = CutStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (inner, address) = <TcpListener as Listener>::accept(&mut self.0).await;
        // Small answers must not wait for more; where the option is refused they only come a little later.
        let _ = inner.set_nodelay(true);
        (
            CutStream {
                inner,
                cut: Cut::default(),
            },
            address,
        )
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.0.local_addr()
    }
}

impl Connected<IncomingStream<'_, CutListener>> for Cut {
    fn connect_info(stream: IncomingStream<'_, CutListener>) -> Self {
        stream.io().cut.clone()
    }
}

impl AsyncRead for CutStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.cut.check()?;
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl AsyncWrite for CutStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.cut.check()?;
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.cut.check()?;
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
