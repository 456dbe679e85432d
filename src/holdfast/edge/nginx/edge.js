/**
 * What nginx decides about a buyer's request before it reaches Holdfast.
 *
 * It knows two things: the header `Holdfast-Sale` of the cached `now` (state, room, the server's time), and the secrets
 * that edge tags of passes are made with. It only ever refuses. Whatever it lets through is verified again by Holdfast,
 * so a mistake here is never a sale too many, and a refusal is wrong for as long as `now` is cached at most. What it
 * does not know for certain goes to Holdfast.
 */
import crypto from 'crypto';

const ORIGIN = '@edge_origin';
/** What nginx says of a copy that it could not renew, or is still renewing. */
const NOT_CURRENT = ['STALE', 'UPDATING'];
const PASS_MAX = 2000;
/** Of 18 bytes in base64. */
const TAG_LENGTH = 24;

/** POST …/purchase */
function purchase(r) {
    const sale = readSale(r);
    if (sale === null) {
        return r.internalRedirect(ORIGIN);
    }
    const isRetry = r.headersIn['Holdfast-Retry'] !== undefined;
    if (sale.room !== 'off') {
        const found = judgeInSale(r, sale);
        if (found === 'unknown_key') {
            return r.internalRedirect('@edge_unknown_key');
        }
        // The answer to a purchase may have been lost, and the pass may have expired since.
        if (found === 'refused' || (found === 'expired' && !isRetry)) {
            return r.internalRedirect(refusalBy(sale) || '@edge_admission_required');
        }
        return r.internalRedirect(sale.isShedding && !isRetry ? '@edge_busy' : ORIGIN);
    }
    return r.internalRedirect(isRetry ? ORIGIN : refusalBy(sale) || ORIGIN);
}

/** POST …/queue and …/admission */
function join(r) {
    const sale = readSale(r);
    r.internalRedirect(sale === null ? ORIGIN : refusalBy(sale) || ORIGIN);
}

function refusalBy(sale) {
    if (sale.state === 'sold_out') {
        return '@edge_sold_out';
    }
    if (sale.state === 'ended') {
        return '@edge_sale_ended';
    }
    return sale.isShedding ? '@edge_busy' : '';
}

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

/** The fields of `Holdfast-Sale`, or null if the state of the sale is not known for certain. */
function readSale(r) {
    const text = r.variables.edge_sale;
    if (!text || NOT_CURRENT.indexOf(r.variables.edge_sale_cache) >= 0) {
        return null;
    }
    const found = /^state=(\w+), room=(\w+), time=(\d+)(, shed)?/.exec(text);
    return found && { state: found[1], room: found[2], time: Number(found[3]), isShedding: found[4] !== undefined };
}

/**
 * What the pass of a request is by itself: '' if there is none, 'forged', 'unknown_key', or what its tag vouches for,
 * `exp sale`.
 */
function passVerdict(r) {
    const token = r.headersIn['Holdfast-Pass'];
    if (!token) {
        return '';
    }
    const first = token.indexOf('.');
    const last = token.lastIndexOf('.');
    if (first < 0 || last === first || token.length > PASS_MAX) {
        return 'forged';
    }
    const secret = secretOf(token.slice(0, first), r.variables.edge_keys);
    if (secret === null) {
        return keyIdOf(token) === null ? 'forged' : 'unknown_key';
    }
    const claims = parse(token.slice(first + 1, last));
    if (claims === null) {
        return 'forged';
    }
    // Holdfast issued passes without a tag before it had an edge.
    if (claims.edge === undefined) {
        return 'unknown_key';
    }
    const expected = hmac(secret, `${claims.jti}.${claims.sale}.${claims.exp}`).slice(0, TAG_LENGTH);
    return isSame(expected, String(claims.edge), secret) ? `${claims.exp} ${claims.sale}` : 'forged';
}

/** 'good', 'refused', 'expired' or 'unknown_key'. */
function judgeInSale(r, sale) {
    const verdict = r.variables.edge_pass;
    if (verdict === 'unknown_key') {
        return verdict;
    }
    const space = verdict.indexOf(' ');
    const line = verdict.slice(space + 1);
    // Which sales a pass of a drop is good for, the server knows.
    if (space < 0 || (line !== r.variables.sale && !line.startsWith('drop/'))) {
        return 'refused';
    }
    return sale.time < Number(verdict.slice(0, space)) ? 'good' : 'expired';
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

/** The object that a part of a token encodes, or null. */
function parse(part) {
    try {
        const value = JSON.parse(Buffer.from(part, 'base64url').toString());
        return typeof value === 'object' && !Array.isArray(value) ? value : null;
    } catch (e) {
        return null;
    }
}

/**
 * Says nothing by its duration: what is compared are digests under a secret, and where they differ depends on it. A loop
 * over the characters would take njs longer than all the rest.
 */
function isSame(left, right, secret) {
    return hmac(secret, left) === hmac(secret, right);
}

function hmac(secret, text) {
    return crypto.createHmac('sha256', secret).update(text).digest('base64url');
}

/** Who asks, as part of a cache key: cache files must not contain credentials. */
function callerDigest(r) {
    return crypto.createHash('sha256').update(String(r.headersIn.Authorization)).digest('hex');
}

export default { purchase, join, unknownKey, callerDigest, passVerdict };
