/**
 * Passes, verified before they reach Holdfast. What follows from it, the maps of `nginx.conf` decide: njs costs more than
 * the rest of a refusal, so it runs for nothing else.
 *
 * It knows two things: the header `Holdfast-Sale` of the cached `now` (state, room, the server's time), and the secrets
 * that edge tags of passes are made with. The edge only ever refuses. Whatever it lets through is verified again by
 * Holdfast, so a mistake here is never a sale too many, and a refusal is wrong for as long as `now` is cached at most.
 * What it does not know for certain goes to Holdfast.
 */
import crypto from 'crypto';

const ORIGIN = '@edge_origin';
const PASS_MAX = 2000;
const TAG_BYTES = 18;

/** A pass signed with a key that this configuration does not have. Holdfast decides, if it publishes such a key. */
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

/** What the pass of a request is worth in this sale: 'good', 'refused', 'expired' or 'unknown_key'. */
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
    // Which sales a pass of a drop is good for, the server knows.
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

/** `keys` is `head secret head secret …`: every pass that is signed with a key begins with the same encoded header. */
function secretOf(head, keys) {
    const at = ` ${keys}`.indexOf(` ${head} `);
    if (at < 0) {
        return null;
    }
    const from = at + head.length + 1;
    const to = keys.indexOf(' ', from);
    return keys.slice(from, to < 0 ? keys.length : to);
}

/** Whether it is one of ours, so that a pass of it could only begin with the header that `keys` has for it. */
function hasKey(kid, keys) {
    return keys.split(' ').some((part, at) => at % 2 === 0 && parse(part).kid === kid);
}

/** What a pass says, or null if Holdfast would not say it so: whoever forges one may write anything. */
function claimsIn(part) {
    const claims = parse(part);
    const isOurs =
        claims !== null &&
        ['edge', 'jti', 'sale'].every((name) => typeof claims[name] === 'string') &&
        typeof claims.exp === 'number';
    return isOurs ? claims : null;
}

/** The object that a part of a token encodes, or null. */
function parse(part) {
    try {
        const value = JSON.parse(Buffer.from(part, 'base64url').toString());
        return typeof value === 'object' && !Array.isArray(value) ? value : null;
    } catch (e) {
        return null;
    }
}

/** Takes the same time whatever differs. A loop over the characters would take njs longer than all the rest. */
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

/** Who asks, as part of a cache key: cache files must not contain credentials. */
function callerDigest(r) {
    return crypto.createHash('sha256').update(String(r.headersIn.Authorization)).digest('hex');
}

export default { unknownKey, callerDigest, passVerdict };
