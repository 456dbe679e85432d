/**
 * Verifies passes before they reach Holdfast. The maps of `nginx.conf` decide based on the result: njs costs more than
 * the rest of a refusal, so it does nothing else.
 *
 * It knows two things: the header `Holdfast-Sale` of the cached `now` (state, room, the server's time), and the secrets
 * for the edge tags of passes. The edge can only refuse. Holdfast verifies everything that it lets through. So a
 * mistake here never leads to an oversell, and a wrong refusal lasts no longer than `now` is cached. Anything uncertain
 * is forwarded to Holdfast.
 */
import crypto from 'crypto';

const ORIGIN = '@edge_origin';
const PASS_MAX = 2000;
const TAG_BYTES = 18;

/** For a pass signed with a key that is missing in this configuration. If Holdfast publishes that key, it decides. */
async function unknownKey(r) {
    const reply = await r.subrequest('/_edge/jwks');
    const kid = keyIdOf(r.headersIn['Holdfast-Pass']);
    let isPublished = reply.status !== 200;
    try {
        isPublished = isPublished || JSON.parse(reply.responseText).keys.some((key) => key.kid === kid);
    } catch (e) {
        isPublished = true;
    }
    r.internalRedirect(isPublished ? ORIGIN : '@edge_admission_required');
}

/** The verdict on the pass of a request in this sale: 'good', 'refused', 'expired' or 'unknown_key'. */
function passVerdict(r) {
    const token = r.headersIn['Holdfast-Pass'];
    const first = token.indexOf('.');
    const last = token.lastIndexOf('.');
    if (first < 0 || last === first || token.length > PASS_MAX) {
        return 'refused';
    }
    const keys = r.variables.edge_keys;
    const secret = secretOf(token.slice(0, first), keys);
    if (secret === null) {
        const kid = keyIdOf(token);
        return kid === null || hasKey(kid, keys) ? 'refused' : 'unknown_key';
    }
    const claims = claimsIn(token.slice(first + 1, last));
    if (claims === null) {
        return 'refused';
    }
    // Only the server knows for which sales a pass of a drop is valid.
    if (!hasTag(claims, secret) || (claims.sale !== r.variables.sale && !claims.sale.startsWith('drop/'))) {
        return 'refused';
    }
    return timeOf(r.variables.edge_sale) < claims.exp ? 'good' : 'expired';
}

/** The server's time, from `Holdfast-Sale`. */
function timeOf(sale) {
    const digits = sale.slice(sale.indexOf('time=') + 5);
    const end = digits.indexOf(',');
    return Number(end < 0 ? digits : digits.slice(0, end));
}

function keyIdOf(token) {
    const header = token && token.length <= PASS_MAX ? parse(token.slice(0, token.indexOf('.'))) : null;
    return header !== null && header.typ === 'holdfast-pass' && typeof header.kid === 'string' ? header.kid : null;
}

/** `keys` is `head secret head secret …`: all passes signed with a key begin with the same encoded header. */
function secretOf(head, keys) {
    const at = ` ${keys}`.indexOf(` ${head} `);
    if (at < 0) {
        return null;
    }
    const from = at + head.length + 1;
    const to = keys.indexOf(' ', from);
    return keys.slice(from, to < 0 ? keys.length : to);
}

/** Whether this key is in `keys`. If so, its passes can only begin with the header there. */
function hasKey(kid, keys) {
    return keys.split(' ').some((part, at) => at % 2 === 0 && parse(part).kid === kid);
}

/** The claims of a pass, or null if Holdfast would not have written them: a forged pass may contain anything. */
function claimsIn(part) {
    const claims = parse(part);
    const isOurs =
        claims !== null &&
        ['edge', 'jti', 'sale'].every((name) => typeof claims[name] === 'string') &&
        typeof claims.exp === 'number';
    return isOurs ? claims : null;
}

/** The object encoded in a part of a token, or null. */
function parse(part) {
    try {
        const value = JSON.parse(Buffer.from(part, 'base64url').toString());
        return typeof value === 'object' && !Array.isArray(value) ? value : null;
    } catch (e) {
        return null;
    }
}

/** Constant time. In njs, a loop over the characters would take longer than all the rest. */
function hasTag(claims, secret) {
    const given = Buffer.from(claims.edge, 'base64url');
    if (given.length !== TAG_BYTES) {
        return false;
    }
    const expected = crypto
        .createHmac('sha256', secret)
        .update(`${claims.jti}.${claims.sale}.${claims.exp}`)
        .digest();
    return difference(expected, given, 0) + difference(expected, given, 6) + difference(expected, given, 12) === 0;
}

function difference(left, right, at) {
    return Math.abs(left.readUIntBE(at, 6) - right.readUIntBE(at, 6));
}

/** Identifies the caller in a cache key: cache files must not contain credentials. */
function callerDigest(r) {
    return crypto.createHash('sha256').update(String(r.headersIn.Authorization)).digest('hex');
}

export default { unknownKey, callerDigest, passVerdict };
