//! Tests of the load engine: schedules, runs against real servers, reports, verification over HTTP.

mod http2;
mod merge;
mod otlp;
mod report;
mod report_csv;
mod report_html;
mod report_json;
mod run;
mod sample;
mod target;
mod tls;
mod verify;
mod verify_report;
