//! The cloud port: what Headstart asks of an infrastructure provider, its catalogues and the KWOK cloud.
