/** The two ways in: Node's `(request, response, next)`, as Express and Connect have it, and `Request → Response | null`. */
import { MAX_FORM, Visit } from "./gatekeeper.mjs";

/** Admitted requests have the pass in `request.holdfastPass`. Put it before anything that reads bodies. */
export function nodeMiddleware(gatekeeper) {
  return async (request, response, next) => {
    const url = request.originalUrl ?? request.url;
    const visit = new Visit({
      method: request.method,
      url,
      header: (name) => [request.headers[name]].flat()[0] ?? null,
      readForm: () => readForm(request),
      scheme: request.socket?.encrypted ? "https" : "http",
    });
    try {
      if (!gatekeeper.guards(visit.path)) return next();
      const { pass, reply } = await gatekeeper.judge(visit);
      if (pass) {
        request.holdfastPass = pass;
        return next();
      }
      response.writeHead(reply.status, { ...reply.headers, "content-length": Buffer.byteLength(reply.body) });
      response.end(request.method === "HEAD" ? "" : reply.body);
    } catch (error) {
      next(error);
    }
  };
}

async function readForm(request) {
  let body = "";
  for await (const chunk of request) {
    body += chunk;
    if (body.length > MAX_FORM) break;
  }
  return body;
}

/**
 * For workers and edge runtimes: `const {pass, response} = await guard(request)`. With a `response`, return it; else go on,
 * with the `pass` (null where no pass is needed).
 */
export function edgeMiddleware(gatekeeper) {
  return async (request) => {
    const { pathname, search, protocol } = new URL(request.url);
    const visit = new Visit({
      method: request.method,
      url: pathname + search,
      header: (name) => request.headers.get(name),
      readForm: () => request.clone().text(),
      scheme: protocol.slice(0, -1),
    });
    if (!gatekeeper.guards(visit.path)) return { pass: null, response: null };
    const { pass = null, reply } = await gatekeeper.judge(visit);
    const response = reply ? new Response(request.method === "HEAD" ? null : reply.body, reply) : null;
    return { pass, response };
  };
}
