// An HTTP server of Node.js in one process. It responds to /bytes/N with N bytes. Arguments: ADDRESS PORT.
import http from 'node:http';

const [address, port] = process.argv.slice(2);
const bodies = new Map();

function body(url) {
  const match = /^\/bytes\/(\d{1,8})$/.exec(url);
  if (match && !bodies.has(url)) bodies.set(url, Buffer.alloc(Number(match[1]), 'x'));
  return bodies.get(url);
}

const server = http.createServer((request, response) => {
  const content = body(request.url);
  response.writeHead(content ? 200 : 404, { 'Content-Length': content ? content.length : 0 });
  response.end(content);
});
// The client keeps its connections for the whole trial, even without requests.
server.keepAliveTimeout = 0;
server.listen({ host: address, port: Number(port), backlog: 4096 });
