#![doc = include_str!("sharing.md")]
#![cfg_attr(doc, doc = include_str!("pictures/outage.md"))]
