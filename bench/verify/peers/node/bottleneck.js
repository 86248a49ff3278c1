// https://github.com/SGrondin/bottleneck: a reservoir that is filled up again every `reservoirRefreshInterval` ms; what finds it empty waits.
// With `minTime`, jobs start at least so many ms apart. `highWater` bounds those that wait, and what comes then is refused.
import { createServer } from "node:http";
import Bottleneck from "bottleneck";
import { listen, settings } from "./listen.js";

const limiter = new Bottleneck({ strategy: Bottleneck.strategy.OVERFLOW, ...settings });
listen(
  createServer((_, response) => {
    limiter.schedule(async () => response.end("ok")).catch(() => response.writeHead(429).end());
  }),
);
