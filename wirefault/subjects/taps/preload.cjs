// Leads every TCP connection of a Node process to the lab's ingress, whatever client library makes it.
// The ingress hears first where the connection was to go, and answers nothing to that: the library's own
// bytes follow at once. NODE_OPTIONS has it loaded before the program, in workers and children, too.
'use strict';
const net = require('net');
const tls = require('tls');

const [, ingressHost, ingressPort] = /^(.*):(\d+)$/.exec(process.env.WIREFAULT_TAP || '') || [];
// where the ingress is another machine, this one's own servers are reached past it
const direct = (process.env.WIREFAULT_TAP_DIRECT || '').split(',');

if (ingressPort) {
  const connectSocket = net.Socket.prototype.connect;
  const connectTls = tls.connect;

  net.Socket.prototype.connect = function (...given) {
    const normalized = Array.isArray(given[0]) ? given[0] : net._normalizeArgs(given);
    const options = normalized[0];
    if (options.path || !options.port || this instanceof tls.TLSSocket) return connectSocket.apply(this, given);
    const host = options.host || 'localhost';
    // a library that reads the proxy variables, which stay for the programs that this one starts
    if (host === ingressHost && String(options.port) === ingressPort) return connectSocket.apply(this, given);
    if (direct.includes(host)) return connectSocket.apply(this, given);
    const target = `${net.isIPv6(host) ? `[${host}]` : host}:${options.port}`;
    normalized[0] = { ...options, host: ingressHost, port: Number(ingressPort), lookup: undefined };
    connectSocket.call(this, normalized);
    this.write(`CONNECT ${target} HTTP/1.1\r\nX-Tap: oneway\r\n\r\n`);
    return this;
  };

  // TLS goes over such a socket, so that what the ingress hears first is not encrypted.
  tls.connect = function (...given) {
    const [options, callback] = net._normalizeArgs(given);
    if (options.socket || options.path) return connectTls.apply(this, given);
    const servername = options.servername || (net.isIP(options.host || '') ? '' : options.host);
    const socket = net.connect({ host: options.host, port: options.port });
    return connectTls({ ...options, socket, servername }, callback || undefined);
  };

  require('module').syncBuiltinESMExports();
}
