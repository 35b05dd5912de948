// Loaded before a server of Node's: writes each whole request that it gets, as a line of JSON, into a file.
// It looks at what comes in, and adds no listener: that would take the body before the server asks for it.
const fs = require("node:fs");
const http = require("node:http");

const emit = http.Server.prototype.emit;
http.Server.prototype.emit = function (event, request, ...rest) {
  if (event === "request") {
    const said = [];
    const push = request.push;
    request.push = function (part, ...more) {
      if (part !== null) said.push(part);
      else {
        const line = [request.method, request.url, Buffer.concat(said).toString()];
        fs.appendFileSync(process.env.RECORDED_REQUESTS, JSON.stringify(line) + "\n");
      }
      return push.call(this, part, ...more);
    };
  }
  return emit.call(this, event, request, ...rest);
};
