//! Development only: a real control plane, the test cloud and peers on loopback.
