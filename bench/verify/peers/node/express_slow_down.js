// https://github.com/express-rate-limit/express-slow-down: after `delayAfter` requests in `windowMs`, each waits `delayMs`.
import express from "express";
import { createServer } from "node:http";
import { slowDown } from "express-slow-down";
import { listen, settings } from "./listen.js";

const { delayMs, ...others } = settings;
const app = express();
app.use(slowDown({ ...others, delayMs: () => delayMs }));
app.get("/", (_, response) => response.send("ok"));
listen(createServer(app));
