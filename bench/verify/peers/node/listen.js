// Says where a server listens, as `flowgate serve` does.
export function say(port) {
  console.log(`listening on http://127.0.0.1:${port}/,`);
}

// The settings of the limiter, as one argument in JSON.
export const settings = JSON.parse(process.argv[2]);

// Starts an http.Server on a free port of loopback.
export function listen(server) {
  server.listen(0, "127.0.0.1", () => say(server.address().port));
}
