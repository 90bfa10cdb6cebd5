// @sarsen/client, compiled from sdk/typescript/src by `npm run build`: do not edit.
// Pauses between attempts: doubled from attempt to attempt, and jittered so that clients do not come back together.
const FIRST_MS = 250;
const LONGEST_MS = 30_000;
/** A server may ask for a longer pause, up to this. Timers of browsers take 24 days at most. */
const ASKED_MAX_MS = 300_000;
/** So many attempts at a stream are so far apart at most: what was away for ten seconds is seen within a second. */
const QUICK_ATTEMPTS = 15;
const QUICK_MS = 900;
/** A pause in milliseconds before the attempt number `attempt` (0 is the first). */
function pause(attempt, atLeastMs = 0, random = Math.random) {
    return jittered(Math.max(Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(attempt, 16)), 0), atLeastMs, random);
}
/** The pause before a stream is opened again, after `attempt` that failed: a page without one shows what has passed. */
function pauseOfStream(attempt, atLeastMs = 0, random = Math.random) {
    if (attempt < 2)
        return pause(attempt, atLeastMs, random);
    const later = attempt - QUICK_ATTEMPTS;
    return later < 2 ? jittered(QUICK_MS, atLeastMs, random) : pause(later, atLeastMs, random);
}
function jittered(limitMs, atLeastMs, random) {
    return Math.min(atLeastMs, ASKED_MAX_MS) + limitMs * (0.5 + 0.5 * random());
}
/** A pause that a `bye` asks for, spread over its second half. */
function pauseAfterBye(retryMs, random = Math.random) {
    return Math.min(retryMs, ASKED_MAX_MS) * (0.5 + 0.5 * random());
}
/** Waits; resolves early with `false` when the signal aborts. */
function sleep(ms, signal) {
    return new Promise((resolve) => {
        if (signal.aborted)
            return resolve(false);
        const stop = () => {
            clearTimeout(timer);
            resolve(false);
        };
        const timer = setTimeout(() => {
            signal.removeEventListener('abort', stop);
            resolve(true);
        }, ms);
        signal.addEventListener('abort', stop, { once: true });
    });
}
// Errors: problem documents (RFC 9457) of the server, and requests that got no answer.
/** The server refused a request, or could not serve it. */
class ProblemError extends Error {
    name = 'ProblemError';
    /** Stable, snake_case: what a program decides by. */
    code;
    /** The HTTP status; 0 for problems that the client itself reports. */
    status;
    /** Seconds after which a retry may succeed. */
    retryAfter;
    /** The id of the request, by which the server's log has it; where the server has answered. */
    requestId;
    /** The first wrong field of the request. */
    field;
    /** The whole document. */
    document;
    constructor(document, status = document.status ?? 500, retryAfter, requestId) {
        super(document.detail ?? document.title ?? `The server answered with status ${status}.`);
        this.document = document;
        this.status = status;
        this.code = document.code ?? `http_${status}`;
        this.retryAfter = retryAfter;
        this.requestId = requestId;
        this.field = document.errors?.[0]?.field;
    }
    /** Whether the same request may succeed later. */
    get isPassing() {
        return this.status === 429 || this.status === 408 || (this.status >= 500 && this.code !== 'internal');
    }
    /** The problem of an answer whose status is not 2xx. */
    static async of(response) {
        let document = {};
        try {
            const body = await response.json();
            if (typeof body === 'object' && body !== null)
                document = body;
        }
        catch {
            // A proxy's page, for example: the status is all there is.
        }
        const { headers } = response;
        const requestId = headers.get('X-Request-Id') ?? undefined;
        return new ProblemError(document, response.status, seconds(headers.get('Retry-After')), requestId);
    }
}
/** For live queries whose user has changed: the client itself reports it, so it has no status. */
function callerChanged() {
    return new ProblemError({ code: 'caller_changed', detail: 'Another user is signed in now.' }, 0);
}
/** For live queries without a token, because the application's source failed. */
function tokenFailed(cause) {
    const detail = `There is no access token: ${cause instanceof Error ? cause.message : String(cause)}`;
    return Object.assign(new ProblemError({ code: 'token_failed', detail }, 0), { cause });
}
/** No answer: the network or the server failed. Whether the request was carried out is unknown. */
class ConnectionError extends Error {
    name = 'ConnectionError';
    constructor(cause) {
        super('No answer came. Whether the request was carried out is not known: check that before you send it again.', { cause });
    }
}
function seconds(header) {
    if (header === null)
        return undefined;
    const number = Number(header);
    if (Number.isFinite(number))
        return Math.max(0, number);
    const date = Date.parse(header);
    return Number.isNaN(date) ? undefined : Math.max(0, (date - Date.now()) / 1000);
}
// Access tokens: where they come from, when they expire, and who they stand for.
/**
 * The members of a JWT that may differ between two tokens of the same user: times and ids; of ID tokens what belongs to one
 * sign-in (OpenID Connect Core); and what Microsoft Entra puts into each token for itself. The server has the same list,
 * in `rights` of `crates/live/src/http/streams.rs`: change both.
 */
const CHANGES_WITH_REFRESH = new Set([
    ...['iat', 'exp', 'nbf', 'jti', 'auth_time'],
    ...['at_hash', 'c_hash', 's_hash', 'nonce'],
    ...['uti', 'aio', 'rh'],
]);
class Tokens {
    #source;
    #limitMs;
    #refused;
    #renewing;
    /** Whether the renewal is for a token that was refused. Requests wait for it then. */
    #isNeeded = false;
    #caller;
    #token;
    /** Questions to the source are numbered. Answers to those before the last sign-in are void. */
    #asks = 0;
    #signedInAt = 0;
    /** The question whose answer gave `#token`. */
    #answered = 0;
    /** Is called when a token stands for another caller than the one before; `undefined`: nobody knows for whom. */
    onCaller = () => { };
    constructor(source, limitMs) {
        this.#source = source;
        this.#limitMs = limitMs;
    }
    /** For whom the last token stands, that token, and how many sign-ins there were. */
    get known() {
        const token = this.#caller === undefined ? undefined : this.#token;
        return { caller: this.#caller, token, signedInAt: this.#signedInAt };
    }
    /** The token for the next request. */
    async get() {
        if (!this.#source)
            return undefined;
        if (this.#renewing && this.#isNeeded)
            return this.#renewing;
        const ask = (this.#asks += 1);
        const token = await this.#ask();
        // The application may still have the token in its cache that the server refused.
        if (token !== undefined && token === this.#refused)
            return this.renew(token);
        return this.#note(token, ask);
    }
    /** Another token than `refused`. Requests that are refused at the same time ask once. */
    renew(refused) {
        this.#refused = refused;
        this.#isNeeded = true;
        return this.refresh(refused);
    }
    /** Another token than `old`, which is good until it expires. */
    refresh(old) {
        if (this.#renewing)
            return this.#renewing;
        const ask = (this.#asks += 1);
        const answer = this.#ask(old).then((token) => this.#note(token, ask));
        const renewing = answer.finally(() => this.#renewing === renewing && this.#endRenewal());
        this.#renewing = renewing;
        return renewing;
    }
    /** The user has signed in or out: asks anew. If the source fails then, nobody is known to be signed in. */
    async signedIn() {
        const at = (this.#signedInAt = this.#asks += 1);
        this.#endRenewal();
        try {
            await this.get();
        }
        catch (error) {
            if (at === this.#signedInAt && this.#caller !== undefined) {
                this.#caller = undefined;
                this.onCaller(undefined);
            }
            throw error;
        }
    }
    /** Who the present token stands for; equal for all tokens of one caller. */
    async caller() {
        const token = await this.get();
        return this.#caller ?? callerOf(token);
    }
    #endRenewal() {
        this.#renewing = undefined;
        this.#isNeeded = false;
    }
    /** Asks the source, for a limited time. */
    async #ask(refused) {
        let timer;
        const late = new Promise((_, reject) => {
            const error = new Error(`\`token\` has not returned for ${this.#limitMs / 1000} seconds.`);
            timer = setTimeout(() => reject(error), this.#limitMs);
            // In Node.js a source that hangs must not keep the process alive.
            timer.unref?.();
        });
        try {
            // `localStorage.getItem` returns null.
            return (await Promise.race([this.#source?.(refused), late])) ?? undefined;
        }
        finally {
            clearTimeout(timer);
        }
    }
    async #note(token, ask) {
        const caller = await callerOf(token);
        if (ask < this.#signedInAt)
            return this.get();
        const isOther = this.#caller !== undefined && caller !== this.#caller;
        if (ask < this.#answered)
            return isOther ? this.#token : token;
        [this.#answered, this.#token, this.#caller] = [ask, token, caller];
        if (isOther)
            this.onCaller(caller);
        return token;
    }
}
/** When a JWT expires, in milliseconds; `undefined` for other tokens. */
function expiry(token) {
    const exp = claims(token)?.['exp'];
    return typeof exp === 'number' ? exp * 1000 : undefined;
}
/** Which user a JWT names; equal for tokens that name none. */
function subjectOf(token) {
    const known = claims(token);
    return JSON.stringify([known?.['iss'], known?.['sub']]);
}
/** Whether two JWTs name two users. */
function namesOther(one, other) {
    const haveSubject = claims(one)?.['sub'] !== undefined && claims(other)?.['sub'] !== undefined;
    return haveSubject && subjectOf(one) !== subjectOf(other);
}
/** A short text for the caller of a token: of a JWT with `sub` the claims that last, of others the token, hashed. */
async function callerOf(token) {
    if (token === undefined)
        return 'anonymous';
    const known = claims(token);
    const identity = known?.['sub'] === undefined ? { token } : known;
    const members = Object.entries(identity).filter(([name]) => !CHANGES_WITH_REFRESH.has(name));
    const text = JSON.stringify(members.sort(([one], [other]) => (one < other ? -1 : 1)));
    // Without a secure context there is no hash, and no lock that tabs could share either: the text stays in this tab.
    if (!globalThis.crypto?.subtle)
        return text;
    const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)));
    return Array.from(hash.subarray(0, 16), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
function claims(token) {
    const payload = token?.split('.')[1];
    if (!payload)
        return undefined;
    try {
        const bytes = Uint8Array.from(atob(payload.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0));
        const parsed = JSON.parse(new TextDecoder().decode(bytes));
        return typeof parsed === 'object' && parsed !== null ? parsed : undefined;
    }
    catch {
        return undefined;
    }
}
// Requests with the caller's token. A 401 asks for a new token once. What one caller asked for is not sent as another one.
/** The application's source of tokens failed. */
class TokenError {
    cause;
    constructor(cause) {
        this.cause = cause;
    }
}
class Http {
    tokens;
    #base;
    #fetch;
    constructor(url, tokens, fetcher) {
        this.#base = url.replace(/\/+$/, '');
        this.tokens = tokens;
        this.#fetch = fetcher;
    }
    /** Sends a request. Resolves with a 2xx answer; rejects with a `ProblemError`, a `ConnectionError` or a `TokenError`. */
    async send(request) {
        const before = this.tokens.known;
        let token = await this.#token(() => this.tokens.get(), request.signal);
        const caller = await callerOf(token);
        // A sign-in while the token was awaited: the request belongs to the user before.
        const isVoid = before.signedInAt !== this.tokens.known.signedInAt;
        const expected = request.caller ?? (isVoid ? before.caller : undefined);
        if (expected !== undefined && expected !== caller)
            throw callerChanged();
        // Another tab may have signed in another user: what the page shows is of the one before.
        if (namesOther(before.token, token))
            throw callerChanged();
        request.caller = caller;
        let response = await this.#once(request, token);
        if (response.status === 401 && token !== undefined) {
            const refused = token;
            const problem = await ProblemError.of(response);
            request.onRenew?.();
            const other = await this.#token(() => this.tokens.renew(refused), request.signal);
            const isOther = other !== undefined && other !== refused;
            if (!isOther || !(await this.#replaces(refused, other, before.signedInAt)))
                throw problem;
            token = other;
            request.caller = await callerOf(token);
            response = await this.#once(request, token);
        }
        if (!response.ok)
            throw await ProblemError.of(response);
        const type = (response.headers.get('Content-Type') ?? 'no media type').toLowerCase();
        if (request.accept !== undefined && !type.startsWith(request.accept)) {
            response.body?.cancel().catch(() => { });
            throw new ConnectionError(new Error(`The answer has ${type} instead of ${request.accept}.`));
        }
        return Object.assign(response, { token });
    }
    /** Whether a token is of the same user. The source says so, unless the tokens or a sign-in say otherwise. */
    async #replaces(refused, token, signedInAt) {
        if (signedInAt === this.tokens.known.signedInAt)
            return subjectOf(refused) === subjectOf(token);
        return (await callerOf(refused)) === (await callerOf(token));
    }
    /** A token, or the end of the request: a source may take long. */
    #token(ask, signal) {
        return new Promise((resolve, reject) => {
            const stop = () => reject(signal?.reason);
            if (signal?.aborted)
                return stop();
            signal?.addEventListener('abort', stop, { once: true });
            ask()
                .then(resolve, (error) => reject(new TokenError(error)))
                .finally(() => signal?.removeEventListener('abort', stop));
        });
    }
    async #once(request, token) {
        const headers = { ...request.headers };
        if (token !== undefined)
            headers['Authorization'] = `Bearer ${token}`;
        if (request.accept !== undefined)
            headers['Accept'] = request.accept;
        if (request.body !== undefined)
            headers['Content-Type'] = 'application/json';
        const init = { method: request.method, headers, cache: 'no-store' };
        if (request.body !== undefined)
            init.body = JSON.stringify(request.body);
        if (request.signal)
            init.signal = request.signal;
        // A header that cannot be sent is a mistake of the application, and no failure of the connection.
        new Headers(headers);
        request.onSend?.();
        try {
            return await this.#fetch(this.#base + request.path, init);
        }
        catch (error) {
            if (request.signal?.aborted)
                throw error;
            throw new ConnectionError(error);
        }
    }
}
// A parser of `text/event-stream` (HTML Standard, section 9.2.6) for bytes that arrive in any pieces.
class EventParser {
    #decoder = new TextDecoder();
    #text = '';
    #name = '';
    #data = [];
    #id;
    #retry;
    /** Adds bytes; returns the events that are complete now. */
    push(bytes) {
        // The decoder drops a byte order mark at the beginning, as the standard asks.
        this.#text += this.#decoder.decode(bytes, { stream: true });
        const events = [];
        let start = 0;
        for (;;) {
            const end = lineEnd(this.#text, start);
            // A line that ends in the last CR is complete only when the next character is known: it may be an LF.
            if (end < 0 || (this.#text[end] === '\r' && end + 1 === this.#text.length))
                break;
            const event = this.#line(this.#text.slice(start, end));
            if (event)
                events.push(event);
            start = end + (this.#text.startsWith('\r\n', end) ? 2 : 1);
        }
        this.#text = this.#text.slice(start);
        return events;
    }
    #line(line) {
        if (line === '')
            return this.#dispatch();
        const colon = line.indexOf(':');
        if (colon === 0)
            return undefined;
        const field = colon < 0 ? line : line.slice(0, colon);
        const rest = colon < 0 ? '' : line.slice(colon + 1);
        const value = rest.startsWith(' ') ? rest.slice(1) : rest;
        if (field === 'event')
            this.#name = value;
        else if (field === 'data')
            this.#data.push(value);
        else if (field === 'id' && !value.includes('\0'))
            this.#id = value;
        else if (field === 'retry' && /^[0-9]+$/.test(value))
            this.#retry = Number(value);
        return undefined;
    }
    #dispatch() {
        const isEmpty = this.#data.length === 0;
        const event = { event: this.#name || 'message', data: this.#data.join('\n'), id: this.#id, retry: this.#retry };
        this.#name = '';
        this.#data = [];
        this.#id = undefined;
        this.#retry = undefined;
        return isEmpty ? undefined : event;
    }
}
function lineEnd(text, from) {
    const feed = text.indexOf('\n', from);
    const line = feed < 0 ? text.slice(from) : text.slice(from, feed);
    const carriage = line.indexOf('\r');
    return carriage < 0 ? feed : from + carriage;
}
// The timers of a connection: for bytes that do not come, and for tokens that expire.
/** A token is renewed so long before it expires, or after four fifths of its time if that is later. */
const RENEW_BEFORE_MS = 30_000;
const TIMER_MAX_MS = 2 ** 31 - 1;
/** Calls back when it was not set again in time. */
class Watchdog {
    #bark;
    #timer;
    hadBytes = false;
    /** By the clock of the device, which goes on while it sleeps. */
    #heard = Date.now();
    constructor(bark) {
        this.#bark = bark;
    }
    /** Bytes have arrived. */
    hear(ms) {
        this.hadBytes = true;
        this.#heard = Date.now();
        this.set(ms);
    }
    /** Whether bytes have come, but none for longer than this. */
    isOverdue(ms) {
        return this.hadBytes && Date.now() - this.#heard > ms;
    }
    set(ms) {
        clearTimeout(this.#timer);
        this.#timer = setTimeout(this.#bark, ms);
    }
    stop() {
        clearTimeout(this.#timer);
    }
}
/** Renews the token of a stream before it expires. */
class Renewal {
    #timer;
    #stopped = false;
    plan(token, renew, failures = 0) {
        const expires = expiry(token);
        if (expires === undefined || this.#stopped)
            return;
        const left = expires - Date.now();
        // A token that has expired by this clock: the server's clock decides, and ends the stream.
        if (left <= 0)
            return;
        const wait = failures > 0 ? pause(failures) : Math.max(left - RENEW_BEFORE_MS, left * 0.8);
        this.#timer = setTimeout(async () => {
            try {
                const next = await renew(token);
                // A source may renew only what is about to expire.
                this.plan(next, renew, next === token ? failures + 1 : 0);
            }
            catch {
                this.plan(token, renew, failures + 1);
            }
        }, Math.min(wait, TIMER_MAX_MS));
    }
    stop() {
        this.#stopped = true;
        clearTimeout(this.#timer);
    }
}
// The connection to the server: one stream for all subscriptions, opened again when it ends; long polls where a proxy
// does not let streams through.
const TIMING = { heartbeat: 15_000, silence: 5_000, polling: 300_000, token: 30_000, call: 30_000 };
/** No other subscriptions would be accepted: the method, the time, the host. */
const ABOUT_THE_REQUEST = [405, 408, 421];
/** A stream that ends sooner, without a `bye`, is short. */
const SHORT_MS = 1_000;
/** So many short or silent streams in a row: something in between does not let streams through. */
const SHORT_MAX = 3;
/** After a stream of this length the pauses between attempts begin small again. */
const STEADY_MS = 5_000;
/** Bytes of a URL that every proxy lets through. */
const URL_MAX = 4_000;
/** Between the beginnings of two polls with news. */
const POLL_PACE_MS = 250;
/** What streams and polls answer with. */
const EVENTS = 'text/event-stream';
/** A subscription that the server refused in a poll is asked for again after this. */
const LEFT_OUT_MS = 30_000;
/** A change with these statuses needs another stream: of another caller (401, 403), gone (404), elsewhere (409). */
const NEEDS_STREAM = [401, 403, 404, 409];
class Connection {
    #http;
    #subscriber;
    #timing;
    #running = false;
    #closed = false;
    /** Ends the present attempt, or the pause after it. */
    #abort = new AbortController();
    /** The open stream; undefined until its `hello`. */
    #stream;
    /** The keys that the server has accepted: those of the stream, or of the last one. */
    #accepted = new Set();
    /** So many others at most are in one request. It is halved when the server refuses them. */
    #most = Infinity;
    #isPausing = false;
    /** The server has begun to answer the present stream. */
    #hasBegun = false;
    #syncs = false;
    #isPolling = false;
    #pollingUntil = 0;
    /** The server has answered the last poll. */
    #hasPolled = false;
    /** Polls leave these keys out until then: the server refused them, and would answer each poll at once. */
    #leftOut = new Map();
    #watchdog;
    constructor(http, subscriber, timing) {
        this.#http = http;
        this.#subscriber = subscriber;
        this.#timing = timing;
    }
    /** The subscriptions have changed. Changes of one turn of the event loop are sent together. */
    sync() {
        if (this.#syncs || this.#closed)
            return;
        this.#syncs = true;
        soon(() => {
            this.#syncs = false;
            if (this.#closed)
                return;
            if (!this.#running)
                void this.#run();
            else if (this.#subscriber.subscriptions().length === 0)
                this.#abort.abort('empty');
            else if (!this.#isPolling)
                void this.#change();
            // A pause that the server asked for goes on.
            else if (!this.#isPausing)
                this.#abort.abort('again');
        });
    }
    /** The network or the user is back: ends a pause between two attempts, and a connection that is overdue. */
    hurry() {
        if (this.#isPausing)
            this.#abort.abort('hurry');
        else if (this.#isPolling)
            this.#abort.abort('again');
        else if (this.#watchdog?.isOverdue(1.25 * this.#timing.heartbeat))
            this.#abort.abort('silent');
    }
    close() {
        this.#closed = true;
        this.#abort.abort('closed');
    }
    async #run() {
        this.#running = true;
        let attempt = 0;
        let shorts = 0;
        while (!this.#closed && this.#subscriber.subscriptions().length > 0) {
            if (shorts >= SHORT_MAX) {
                this.#pollingUntil = performance.now() + this.#timing.polling;
                // The next stream after that has one chance.
                shorts = SHORT_MAX - 1;
            }
            this.#isPolling = performance.now() < this.#pollingUntil;
            const started = performance.now();
            this.#hasBegun = false;
            const end = this.#isPolling ? await this.#poll() : await this.#open();
            const lasted = performance.now() - started;
            if (!this.#isPolling) {
                if (end.why === 'silent' || (end.why === 'closed' && lasted < SHORT_MS))
                    shorts += 1;
                else if (end.why !== 'failed' && (end.why === 'bye' || lasted >= SHORT_MS))
                    shorts = 0;
            }
            // A server that has said nothing for so long has not worked: the pauses grow.
            const hasWorked = this.#hasBegun && lasted >= STEADY_MS;
            if (['polled', 'refused', 'moved'].includes(end.why) || hasWorked)
                attempt = 0;
            if (end.why === 'again' || end.why === 'polled')
                continue;
            // The wave of clients after a restart is spread by the `bye`; a first attempt that follows needs no more.
            const isWelcome = end.why === 'bye' && attempt === 0 && (lasted >= STEADY_MS || this.#isPolling);
            const ms = isWelcome ? pauseAfterBye(end.pauseMs ?? 0) : pauseOfStream(attempt, end.pauseMs);
            attempt += 1;
            if (this.#closed || this.#subscriber.subscriptions().length === 0)
                break;
            this.#subscriber.status('waiting');
            this.#abort = new AbortController();
            this.#isPausing = true;
            await sleep(ms, this.#abort.signal);
            this.#isPausing = false;
        }
        this.#running = false;
        if (this.#closed)
            return;
        this.#subscriber.status('idle');
        // A subscription may have come while the loop ended.
        if (this.#subscriber.subscriptions().length > 0)
            this.sync();
    }
    /** Opens a stream and reads it to its end. */
    async #open() {
        const abort = (this.#abort = new AbortController());
        const watchdog = (this.#watchdog = new Watchdog(() => abort.abort('silent')));
        const renewal = new Renewal();
        let pauseMs;
        let isOpen = false;
        this.#subscriber.status('connecting');
        const choice = this.#choose(this.#subscriber.subscriptions());
        try {
            const subscriptions = [...choice.kept, ...choice.tried];
            // Something else than a stream counts as one that ended at once: after some of them, polls are tried.
            const headers = { Accept: EVENTS };
            const request = { method: 'POST', path: '/live', body: { subscriptions }, headers, signal: abort.signal };
            this.#subscriber.sending(subscriptions);
            const response = await this.#http.send({ ...request, ...watchedBy(watchdog, this.#timing.silence) });
            isOpen = true;
            this.#accept(subscriptions);
            renewal.plan(response.token, (old) => this.#renew(old));
            for await (const event of events(response, () => watchdog.hear(2.5 * this.#timing.heartbeat))) {
                if (event.event === 'bye')
                    pauseMs = event.retry ?? 0;
                else
                    this.#handle(event);
            }
        }
        catch (error) {
            if (!isOpen && !abort.signal.aborted)
                return this.#refused(error, choice);
        }
        finally {
            watchdog.stop();
            this.#watchdog = undefined;
            renewal.stop();
            this.#stream?.ended.abort();
            this.#stream = undefined;
        }
        if (pauseMs !== undefined)
            return { why: 'bye', pauseMs };
        if (!abort.signal.aborted)
            return { why: 'closed' };
        // A watchdog that ends a stream which had worked has found a dead connection, not a proxy that holds bytes back.
        if (abort.signal.reason === 'silent')
            return { why: watchdog.hadBytes ? 'lost' : 'silent' };
        if (abort.signal.reason !== 'moved')
            return { why: 'again' };
        // The next stream begins with what could not be added to this one.
        this.#most = Infinity;
        return { why: 'moved' };
    }
    /** One long poll. */
    async #poll() {
        const abort = (this.#abort = new AbortController());
        for (const [key, until] of this.#leftOut)
            if (until <= performance.now())
                this.#leftOut.delete(key);
        const choice = this.#choose(this.#subscriber.subscriptions(true).filter(({ key }) => !this.#leftOut.has(key)));
        // While others wait, the server must answer at once: it holds no poll for what the client does not have.
        const tried = choice.tried.length < choice.missing.length ? choice.tried.map(anew) : choice.tried;
        const subscriptions = [...choice.kept, ...tried];
        this.#subscriber.status(this.#hasPolled ? 'polling' : 'connecting');
        if (subscriptions.length === 0) {
            await sleep(LEFT_OUT_MS, abort.signal);
            return { why: 'again' };
        }
        const query = new URLSearchParams(subscriptions.map((subscription) => ['sub', JSON.stringify(subscription)]));
        const path = `/live/poll?${query}`;
        const started = performance.now();
        const watchdog = new Watchdog(() => abort.abort('silent'));
        // The server holds a poll for less than it lets a stream be silent.
        const silence = 2.5 * this.#timing.heartbeat;
        let pauseMs = 0;
        let hasNews = false;
        try {
            // What does not fit into a URL goes into a body.
            const request = path.length <= URL_MAX ? { method: 'GET', path } : { method: 'POST', path: '/live/poll', body: { subscriptions } };
            this.#subscriber.sending(subscriptions);
            const response = await this.#http.send({ ...request, accept: EVENTS, signal: abort.signal, ...watchedBy(watchdog, silence) });
            this.#hasPolled = true;
            this.#subscriber.status('polling');
            this.#accept(subscriptions);
            for await (const event of events(response, () => watchdog.set(silence))) {
                if (event.event === 'bye')
                    pauseMs = event.retry ?? 0;
                else
                    this.#handle(event);
                hasNews ||= ['value', 'rows', 'error'].includes(event.event);
            }
        }
        catch (error) {
            if (abort.signal.aborted && abort.signal.reason !== 'silent')
                return { why: 'again' };
            this.#hasPolled = false;
            // Polls get through no better than streams did: the network or the server is away, and a stream finds out sooner.
            if (!(error instanceof ProblemError))
                this.#pollingUntil = 0;
            return abort.signal.aborted ? { why: 'lost' } : this.#refused(error, choice);
        }
        finally {
            watchdog.stop();
        }
        if (pauseMs > 0)
            return { why: 'bye', pauseMs };
        // Of a query that changes all the time, each poll would be answered at once: the newest state now and then is enough.
        if (hasNews)
            await sleep(POLL_PACE_MS - (performance.now() - started), abort.signal);
        // An answer at once without news must not become a fast loop.
        return hasNews || performance.now() - started >= SHORT_MS ? { why: 'polled' } : { why: 'failed', pauseMs };
    }
    #choose(wanted) {
        const kept = wanted.filter(({ key }) => this.#accepted.has(key));
        const missing = wanted.filter(({ key }) => !this.#accepted.has(key));
        return { kept, tried: missing.slice(0, this.#most), missing };
    }
    #accept(subscriptions) {
        this.#accepted = new Set(subscriptions.map(({ key }) => key));
        this.#most *= 2;
    }
    /** A stream or a poll was refused. What the server refuses for some subscriptions, it may accept for others. */
    #refused(error, choice) {
        if (!isAboutSubscriptions(error))
            return this.#failed(error);
        const { kept, tried } = choice;
        // A limit without room for a single subscription is not about it.
        if (error.status === 429 && kept.length + tried.length <= 1)
            return this.#failed(error);
        if (tried.length > 0)
            return { why: this.#divide(error, choice) ? 'refused' : 'again' };
        this.#accepted.clear();
        this.#most = Math.ceil(kept.length / 2);
        return { why: 'failed', pauseMs: (error.retryAfter ?? 0) * 1000 };
    }
    /**
     * Finds by halves what the server does not accept, which is left out from then on. Returns whether it was found; a
     * short pause must follow then, so that many of them are no fast loop.
     */
    #divide(error, { tried, missing }) {
        this.#most = Math.ceil(tried.length / 2);
        if (tried.length > 1)
            return false;
        // Where there is no room for one, there is none for others.
        const refused = error.status === 429 ? missing : tried;
        this.#subscriber.refused(error, refused.map(({ key }) => key));
        return true;
    }
    /** A request of the stream failed, or only one for the subscriptions with these keys: the others go on. */
    #failed(error, keys) {
        if (error instanceof TokenError)
            this.#subscriber.failed(tokenFailed(error.cause), keys);
        // A token with characters that no header may have.
        else if (error instanceof TypeError)
            this.#subscriber.failed(tokenFailed(error), keys);
        if (!(error instanceof ProblemError))
            return { why: 'failed' };
        // A limit stays until the application does something about it.
        if (!error.isPassing || error.status === 429)
            this.#subscriber.failed(error, keys);
        return { why: 'failed', pauseMs: (error.retryAfter ?? 0) * 1000 };
    }
    #handle(event) {
        let data;
        try {
            data = JSON.parse(event.data);
        }
        catch {
            return;
        }
        if (event.event === 'hello') {
            this.#hasBegun = true;
            const { stream: id, secret } = data ?? {};
            if (id && secret)
                this.#stream = { id, secret, ended: new AbortController(), isChanging: false };
            this.#subscriber.status(this.#isPolling ? 'polling' : 'live');
            void this.#change();
        }
        else if (Array.isArray(data?.keys)) {
            // Without a digest there is nothing that the next poll could say it holds.
            const isRefused = this.#isPolling && event.event === 'error' && data.digest === undefined;
            if (isRefused)
                for (const key of data.keys)
                    this.#leftOut.set(key, performance.now() + LEFT_OUT_MS);
            this.#subscriber.frame(event.event, event.id ?? data.version, data);
        }
    }
    /** Makes the stream's subscriptions what they should be, one request at a time. */
    async #change() {
        const stream = this.#stream;
        if (!stream || stream.isChanging)
            return;
        stream.isChanging = true;
        let failures = 0;
        while (stream === this.#stream) {
            const choice = this.#choose(this.#subscriber.subscriptions());
            const { kept, tried } = choice;
            const keys = new Set(kept.map(({ key }) => key));
            const remove = [...this.#accepted].filter((key) => !keys.has(key));
            if (choice.missing.length === 0)
                this.#most = Infinity;
            if (tried.length === 0 && remove.length === 0)
                break;
            let pauseMs = 0;
            try {
                await this.#send(stream, tried, remove);
                this.#accept([...kept, ...tried]);
                failures = 0;
            }
            catch (error) {
                if (stream !== this.#stream)
                    break;
                if (isAboutSubscriptions(error) && tried.length > 0) {
                    if (this.#divide(error, choice))
                        pauseMs = pause(0);
                }
                else {
                    const end = this.#failed(error, tried.map(({ key }) => key));
                    pauseMs = pause(failures, end.pauseMs);
                    failures += 1;
                }
            }
            if (pauseMs > 0)
                await sleep(pauseMs, stream.ended.signal);
        }
        stream.isChanging = false;
    }
    /** Sends a change of the stream. The stream goes on if that fails, unless the answer says that it is of no use. */
    async #send(stream, add, remove) {
        const abort = new AbortController();
        const stop = () => abort.abort('ended');
        stream.ended.signal.addEventListener('abort', stop, { once: true });
        const watchdog = new Watchdog(() => abort.abort('silent'));
        const watched = watchedBy(watchdog, this.#timing.silence);
        try {
            const body = { secret: stream.secret, add, remove };
            this.#subscriber.sending(add);
            await this.#http.send({ method: 'POST', path: `/live/${stream.id}`, body, signal: abort.signal, ...watched });
        }
        catch (error) {
            const needsStream = error instanceof ProblemError && NEEDS_STREAM.includes(error.status);
            if (needsStream && this.#stream === stream) {
                this.#stream = undefined;
                stream.ended.abort();
                this.#abort.abort('moved');
            }
            throw error;
        }
        finally {
            watchdog.stop();
            stream.ended.signal.removeEventListener('abort', stop);
        }
    }
    /** Sends a new token on the running stream, which therefore outlives the old one. Returns that token. */
    async #renew(old) {
        const stream = this.#stream;
        let token = await this.#http.tokens.get();
        if (token === old)
            token = await this.#http.tokens.refresh(old);
        if (token !== old && stream && stream === this.#stream)
            await this.#send(stream, [], []);
        return token;
    }
}
/** Ends the present turn of the event loop first. The timers of a hidden tab, which may lead others, fire once a second. */
function soon(run) {
    if (typeof document !== 'undefined' && document.hidden)
        queueMicrotask(run);
    else
        setTimeout(run);
}
/** The watchdog of a request. The time of the token source, which has a limit of its own, does not count as silence. */
function watchedBy(watchdog, silence) {
    return { onSend: () => watchdog.set(silence), onRenew: () => watchdog.stop() };
}
/** Whether a request was refused for the subscriptions in it, so that others may be accepted. */
function isAboutSubscriptions(error) {
    if (!(error instanceof ProblemError) || NEEDS_STREAM.includes(error.status))
        return false;
    return error.status >= 400 && error.status < 500 && !ABOUT_THE_REQUEST.includes(error.status);
}
/** The subscription with a digest that no result has, so that the server sends the whole value at once. */
function anew(subscription) {
    const have = subscription.have?.replace(/\/[^-].*/, '/+');
    return have === undefined ? subscription : { ...subscription, have };
}
async function* events(response, onBytes) {
    if (!response.body)
        return;
    const reader = response.body.getReader();
    const parser = new EventParser();
    try {
        for (;;) {
            const { done, value } = await reader.read();
            if (done)
                return;
            onBytes();
            yield* parser.push(value);
        }
    }
    finally {
        reader.cancel().catch(() => { });
    }
}
// Versions: states of the database, as text with a fixed width, `<epoch>.<number>`. Numbers of one epoch are ordered as
// text; an epoch is one history of the database (a restore begins another).
/** True if a client that holds `held` may replace it by `next`: it is not older, or belongs to another epoch. */
function replaces(next, held) {
    if (!next || !held)
        return true;
    const [nextEpoch, nextNumber] = split(next);
    const [heldEpoch, heldNumber] = split(held);
    return nextEpoch !== heldEpoch || nextNumber >= heldNumber;
}
function split(version) {
    const dot = version.indexOf('.');
    return dot < 0 ? [version, ''] : [version.slice(0, dot), version.slice(dot + 1)];
}
/** True if a state of version `held` surely contains what was committed at `version`: one epoch, and not older. */
function covers(held, version) {
    return !!held && !!version && split(held)[0] === split(version)[0] && replaces(held, version);
}
// What a client holds of a live query, and how the server's frames change it.
const NOTHING = { version: undefined, digest: undefined, hasValue: false };
/**
 * The state after an event; `undefined` if the client must ask for the whole value. The same object: nothing changed. An
 * event that `answers` what the client said it holds is the present state, also if it is older.
 */
function after(state, event, version, frame, answers = false) {
    const isOlder = !replaces(version, state.version);
    if (isOlder && !answers)
        return state;
    const next = following(state, event, version, frame);
    return next && next !== state && isOlder ? { ...next, isOlder } : next;
}
function following(held, event, version, frame) {
    const { isOlder: _, ...state } = held;
    switch (event) {
        case 'value':
            return { version, settled: frame.settled, digest: frame.digest, value: frame.value, hasValue: true };
        case 'same':
            return { ...state, version: version ?? state.version, settled: frame.settled };
        case 'error':
            return { version: version ?? state.version, digest: frame.digest, hasValue: false, problem: problemOf(frame) };
        case 'rows': {
            if (!isBase(state, frame))
                return undefined;
            const value = merge(state.value, frame);
            return value && { version, settled: frame.settled, digest: frame.digest, value, hasValue: true };
        }
        default:
            return held;
    }
}
/** Whether row changes are changes of what is held. */
function isBase(state, frame) {
    return state.hasValue && state.version === frame.base;
}
function problemOf(frame) {
    const document = frame.problem ?? {};
    return { document, status: document.status ?? 500 };
}
function errorOf(state) {
    return state.problem && new ProblemError(state.problem.document, state.problem.status);
}
/**
 * What the client says that it holds. Two digests are of no result, so that the server sends the whole value: `+` if a
 * value is shown, and `-` if there is none, so that the listener learns of a run that keeps failing.
 */
function have(state, version = state.version) {
    return version === undefined ? undefined : `${version}/${state.digest ?? (state.hasValue ? '+' : '-')}`;
}
/** Canonical JSON: members sorted, `undefined` left out. */
function canonical(value) {
    if (Array.isArray(value))
        return `[${value.map(canonical).join(',')}]`;
    if (typeof value !== 'object' || value === null)
        return JSON.stringify(value) ?? 'null';
    if ('toJSON' in value && typeof value.toJSON === 'function')
        return canonical(value.toJSON());
    const members = Object.entries(value).filter(([, member]) => member !== undefined);
    members.sort(([one], [other]) => (one < other ? -1 : 1));
    return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`).join(',')}}`;
}
/** Applies changed rows: removes `gone`, replaces or appends `set`, then sorts by `order`. */
function merge(value, frame) {
    if (!Array.isArray(value))
        return undefined;
    const set = frame.set ?? [];
    const by = frame.by ?? fieldOf(value, frame);
    if (by === undefined)
        return undefined;
    // The server's key is the text of a number, which may be another one here: `1.0` is read as 1.
    if (!set.every(([key, row]) => keyOf(row, by) === key))
        return undefined;
    const rows = new Map();
    for (const row of value) {
        const key = keyOf(row, by);
        if (key === undefined)
            return undefined;
        rows.set(key, row);
    }
    if (rows.size !== value.length)
        return undefined;
    for (const key of frame.gone ?? [])
        if (!rows.delete(key))
            return undefined;
    for (const [key, row] of set)
        rows.set(key, row);
    if (!frame.order)
        return [...rows.values()];
    const sorted = frame.order.map((key) => rows.get(key));
    return frame.order.length === rows.size && !sorted.includes(undefined) ? sorted : undefined;
}
/** The field that holds the keys, if only one fits what the frame says. */
function fieldOf(value, frame) {
    const set = frame.set ?? [];
    const sample = set[0]?.[1] ?? value[0];
    if (typeof sample !== 'object' || sample === null)
        return undefined;
    const fields = Object.keys(sample).filter((field) => {
        const keys = new Set(value.map((row) => keyOf(row, field)));
        return (keys.size === value.length &&
            set.every(([key, row]) => keyOf(row, field) === key) &&
            (frame.gone ?? []).every((key) => keys.has(key)));
    });
    return fields.length === 1 ? fields[0] : undefined;
}
/** The key of a row as the server writes it; `undefined` if it cannot be known. */
function keyOf(row, field) {
    const key = row?.[field];
    // A number above 2^53 is rounded when it is read: its text may be the key of another row.
    if (typeof key === 'number' && Math.abs(key) > Number.MAX_SAFE_INTEGER)
        return undefined;
    return typeof key === 'string' ? key : key === undefined ? undefined : JSON.stringify(key);
}
// The live queries of one connection: their states, kept up to date from the server's frames.
/** Whether a state says something: a value or a problem. */
function isAnswer(state) {
    return state.hasValue || state.problem !== undefined;
}
function isSame(state, held) {
    return state.version === held.version && state.digest === held.digest && state.hasValue === held.hasValue;
}
class Feed {
    #sink;
    #connection;
    #entries = new Map();
    #byKey = new Map();
    #keys = 0;
    constructor(http, timing, sink) {
        this.#sink = sink;
        this.#connection = new Connection(http, this, timing);
    }
    want(wanted, held, notBefore) {
        const known = this.#entries.get(wanted.id);
        if (known) {
            const version = known.state.settled ?? known.state.version;
            if (notBefore !== undefined && !covers(version, notBefore))
                return this.ask(wanted.id, notBefore);
            // A tab may hold more than this connection, which has just begun.
            if (!isAnswer(known.state) && isAnswer(held))
                known.state = held;
            // What the tab shows already is no news: it would take back a problem that lasts.
            if (isAnswer(known.state) && !isSame(known.state, held))
                this.#sink.state(wanted.id, known.state);
            return;
        }
        const begin = { key: '', asked: undefined, isAskedAgain: false, isAwaited: false, takesRows: true, attempts: 0, isParked: false, timer: undefined };
        const entry = { wanted, state: held, notBefore, ...begin };
        this.#entries.set(wanted.id, entry);
        this.#subscribe(entry);
    }
    drop(id) {
        const entry = this.#entries.get(id);
        if (!entry)
            return;
        clearTimeout(entry.timer);
        this.#entries.delete(id);
        this.#byKey.delete(entry.key);
        this.#connection.sync();
        // A limit may have room for another one now.
        const parked = [...this.#entries.values()].find(({ isParked, refusal }) => isParked && refusal === 429);
        if (parked)
            this.#subscribe(parked);
    }
    ask(id, version) {
        const entry = this.#entries.get(id);
        if (!entry)
            return;
        entry.isAskedAgain = version !== undefined && entry.asked === version;
        entry.asked = version;
        // Another tab may have asked for a newer one meanwhile.
        if (!covers(entry.notBefore, version))
            entry.notBefore = version;
        if (!entry.isParked)
            this.#subscribe(entry);
    }
    hurry() {
        this.#connection.hurry();
    }
    close() {
        for (const entry of this.#entries.values())
            clearTimeout(entry.timer);
        this.#entries.clear();
        this.#byKey.clear();
        this.#connection.close();
    }
    #subscribe(entry) {
        clearTimeout(entry.timer);
        entry.timer = undefined;
        entry.isParked = false;
        this.#byKey.delete(entry.key);
        entry.key = `k${(this.#keys += 1)}`;
        this.#byKey.set(entry.key, entry);
        this.#connection.sync();
    }
    subscriptions(isPoll = false) {
        const entries = [...this.#entries.values()].filter(({ isParked }) => !isParked);
        // Those that may be refused again come last, so that others need not wait for them.
        entries.sort((one, other) => one.attempts - other.attempts);
        return entries.map(({ key, wanted, state, notBefore, isAskedAgain, takesRows }) => {
            // A stream says `same` for an equal result, also of a state that may lack the newest commits (PostgreSQL). Who asks
            // for the same version again needs a newer run.
            const isAnew = notBefore !== undefined && (isPoll || isAskedAgain);
            const version = covers(state.settled ?? state.version, notBefore) ? state.version : (notBefore ?? state.version);
            const held = have(isAnew ? { ...state, digest: undefined } : state, version);
            return { key, query: wanted.query, args: wanted.args, ...(held && { have: held }), rows: takesRows };
        });
    }
    sending(subscriptions) {
        for (const { key, have } of subscriptions) {
            const entry = this.#byKey.get(key);
            if (entry)
                entry.isAwaited = have !== undefined;
        }
    }
    frame(event, version, frame) {
        for (const key of frame.keys) {
            const entry = this.#byKey.get(key);
            if (!entry)
                continue;
            // A refusal has no version. It is no older state for a tab that waits for a newer one.
            const isOfAsked = event === 'error' && version === undefined && !covers(entry.state.version, entry.notBefore);
            const state = after(entry.state, event, isOfAsked ? entry.notBefore : version, frame, entry.isAwaited);
            entry.isAwaited = false;
            if (state === undefined) {
                // Row changes that do not fit what is held: the next answer must be the whole value.
                // If the base was right, the client does not have the server's row keys, and later changes would not fit either.
                if (isBase(entry.state, frame))
                    entry.takesRows = false;
                entry.state = { ...NOTHING, version: entry.state.version };
                this.#subscribe(entry);
                continue;
            }
            entry.state = state;
            const isPassing = event === 'error' && new ProblemError(frame.problem ?? {}).isPassing;
            // What is asked for again after a problem must not be older either.
            if (!isPassing)
                entry.notBefore = undefined;
            if (isPassing)
                this.#subscribeAfter([entry], pause(entry.attempts + 2));
            else if (event !== 'error')
                entry.attempts = 0;
            this.#sink.state(entry.wanted.id, state);
        }
    }
    /** Asks again after a problem that passes, such as a limit. */
    #subscribeAfter(entries, ms) {
        for (const entry of entries) {
            entry.attempts += 1;
            clearTimeout(entry.timer);
            entry.timer = setTimeout(() => this.#subscribe(entry), ms);
        }
    }
    failed(error, keys) {
        for (const entry of this.#entries.values()) {
            if (!keys || keys.includes(entry.key))
                this.#sink.refused(entry.wanted.id, error);
        }
    }
    refused(error, keys) {
        this.failed(error, keys);
        const parked = keys.flatMap((key) => this.#byKey.get(key) ?? []);
        for (const entry of parked)
            Object.assign(entry, { isParked: true, refusal: error.status });
        // They are asked for together, so that many cost as many requests as one.
        const attempts = Math.max(0, ...parked.map((entry) => entry.attempts));
        const slow = error.isPassing ? 2 : 7;
        this.#subscribeAfter(parked, pause(attempts + slow, (error.retryAfter ?? 0) * 1000));
    }
    status(status) {
        // Subscriptions that were refused are asked for again.
        this.#sink.status(status === 'idle' && this.#entries.size > 0 ? 'waiting' : status);
    }
}
// The live queries of one tab: their listeners, and the optimistic changes above what the server has sent.
/** A query without listeners stays subscribed so long: components come back. */
const LINGER_MS = 1_000;
/** While answers of mutations are awaited, frames are held back so long at most: they may contain the change already. */
const HOLD_MS = 1_000;
/** After so long without a frame that contains the change, the client asks, and again after twice that, and so on. */
const SETTLE_MS = 2_000;
const SETTLE_MAX_MS = 30_000;
class Subscriptions {
    connect;
    written;
    #topics = new Map();
    #onStatus = new Set();
    #status = 'idle';
    #source;
    /**
     * `connect` is called before the first subscription is made, and again after `reset`. `written` is the version of an
     * answer that this client has just had: what is subscribed to from now on must not be older.
     */
    constructor(connect, written = () => undefined) {
        this.connect = connect;
        this.written = written;
    }
    get source() {
        return this.#source;
    }
    get isEmpty() {
        return this.#topics.size === 0;
    }
    /** Begins to use a source. */
    use(source) {
        this.#source = source;
        for (const topic of this.#topics.values())
            source.want(topic.wanted, topic.newest, topic.notBefore);
    }
    /** Forgets all values, which belong to another caller, reports that to their listeners, and asks for them anew. */
    reset() {
        this.release();
        const shown = [];
        for (const [id, topic] of this.#topics) {
            if (topic.forget())
                shown.push(topic);
            // It was kept for a view that might have come back.
            if (topic.isUnused)
                this.#topics.delete(id);
        }
        // Not kept as a problem: a listener that comes later has nothing of that caller.
        for (const topic of shown)
            topic.report(callerChanged());
        if (this.#topics.size > 0)
            this.connect();
        else
            this.status('idle');
    }
    /** Ends the use of the source. The values stay. */
    release() {
        this.#source?.close();
        this.#source = undefined;
    }
    close() {
        for (const topic of this.#topics.values())
            topic.end();
        this.#topics.clear();
        this.release();
        this.status('idle');
    }
    listen(query, args, listener) {
        const id = idOf(query, args);
        let topic = this.#topics.get(id);
        if (!topic) {
            // Later changes of the caller's object must not change the subscription.
            topic = new Topic({ id, query, args: JSON.parse(canonical(args)) }, () => this.#source);
            topic.notBefore = this.written();
            this.#topics.set(id, topic);
            if (this.#source)
                this.#source.want(topic.wanted, NOTHING, topic.notBefore);
            else
                this.connect();
        }
        const stop = topic.add(listener);
        return () => {
            stop();
            topic.lingerThen(LINGER_MS, () => {
                if (this.#topics.get(id) !== topic)
                    return;
                this.#topics.delete(id);
                topic.forget();
                this.#source?.drop(id);
            });
        };
    }
    /** Applies a change to the present value of a query, if it is subscribed to. */
    apply(query, args, layer) {
        return this.#topics.get(idOf(query, args))?.apply(layer);
    }
    /** Applies a change to all present values of a query that it changes, whatever their arguments. */
    applyToAll(query, change) {
        const all = [...this.#topics.values()].filter(({ wanted }) => wanted.query === query);
        const layers = all.map((topic) => ({ topic, apply: (value) => change(value, topic.wanted.args) }));
        // Where nothing changes, no frame would come that ends the change. All are tried first: if one throws, none is applied.
        const changed = layers.filter(({ topic, apply }) => topic.isChangedBy(apply));
        return changed.map(({ topic, apply }) => topic.apply({ apply }));
    }
    onStatus(listener) {
        const entry = { call: listener };
        this.#onStatus.add(entry);
        safely(() => listener(this.#status));
        return () => this.#onStatus.delete(entry);
    }
    state(id, state) {
        this.#topics.get(id)?.receive(state);
    }
    refused(id, error) {
        this.#topics.get(id)?.fail(error);
    }
    /** There is no source yet, for a reason that concerns all listeners. */
    fail(error) {
        for (const topic of this.#topics.values())
            topic.fail(error);
    }
    status(status) {
        if (status === this.#status)
            return;
        this.#status = status;
        for (const { call } of [...this.#onStatus])
            safely(() => call(status));
    }
}
class Topic {
    wanted;
    #source;
    #listeners = new Set();
    /** The newest state of the server. */
    newest = NOTHING;
    /** The first state must not be older. */
    notBefore;
    /** The state that is shown below the layers. */
    #base = NOTHING;
    #layers = [];
    /** Counts states, for servers whose versions do not compare with those of answers. */
    #frames = 0;
    #shown;
    #hasShown = false;
    /** Whether `#shown` contains a change that the server has not confirmed. */
    #isOptimistic = false;
    /** A problem has passed: the value is shown again, even if it is equal. */
    #isDue = false;
    /** The problem that the listeners know. It is not repeated. */
    #problem;
    #holdTimer;
    #isHeldTooLong = false;
    #lingerTimer;
    constructor(wanted, source) {
        this.wanted = wanted;
        this.#source = source;
    }
    add(listener) {
        clearTimeout(this.#lingerTimer);
        this.#listeners.add(listener);
        // Who comes later gets the present value at once, but never before `live` has returned.
        queueMicrotask(() => {
            if (!this.#listeners.has(listener))
                return;
            const error = this.#problem;
            if (this.#hasShown)
                this.#tell(listener);
            if (error)
                safely(() => listener.onError?.(error));
        });
        return () => this.#listeners.delete(listener);
    }
    get isUnused() {
        return this.#listeners.size === 0;
    }
    lingerThen(ms, end) {
        if (!this.isUnused)
            return;
        clearTimeout(this.#lingerTimer);
        this.#lingerTimer = setTimeout(end, ms);
    }
    receive(state) {
        if (!state.isOlder && !replaces(state.version, this.newest.version))
            return;
        // What these changes made is not in the state that was restored, or is in it already.
        if (state.isOlder)
            for (const layer of [...this.#layers])
                if (layer.answer)
                    this.#remove(layer);
        const isEqual = state.hasValue && this.newest.hasValue && state.digest === this.newest.digest && !!state.digest;
        if (state.hasValue && this.#problem) {
            this.#problem = undefined;
            this.#isDue = true;
        }
        this.newest = isEqual ? { ...state, value: this.newest.value } : state;
        if (!errorOf(state)?.isPassing)
            this.notBefore = undefined;
        this.#frames += 1;
        if (!this.#isHolding())
            this.#settle();
    }
    fail(error) {
        if (this.#problem && JSON.stringify(error.document) === JSON.stringify(this.#problem.document))
            return;
        this.#problem = error;
        this.report(error);
    }
    report(error) {
        for (const listener of this.#present())
            safely(() => listener.onError?.(error));
    }
    /** Whether it shows a value, and a change makes another one of it. */
    isChangedBy(apply) {
        return this.#hasShown && apply(this.#shown) !== this.#shown;
    }
    apply(layer) {
        const applied = { apply: layer.apply, answer: undefined };
        this.#layers.push(applied);
        this.#holdTimer ??= setTimeout(() => {
            this.#isHeldTooLong = true;
            this.#settle();
        }, HOLD_MS);
        this.#show();
        return {
            answered: (version) => {
                applied.answer = { version, frames: this.#frames };
                this.#ended();
                if (this.#layers.includes(applied))
                    this.#askFor(applied);
            },
            drop: () => {
                this.#remove(applied);
                this.#ended();
            },
        };
    }
    /** Calls no listener any more. */
    end() {
        this.#listeners.clear();
        this.forget();
    }
    /** Returns whether listeners may still show something. */
    forget() {
        const hadAnswer = this.#hasShown || this.#problem !== undefined;
        clearTimeout(this.#lingerTimer);
        for (const layer of [...this.#layers])
            this.#remove(layer);
        this.newest = this.#base = NOTHING;
        this.notBefore = undefined;
        this.#hasShown = false;
        this.#shown = undefined;
        this.#problem = undefined;
        this.#ended();
        return hadAnswer;
    }
    #isHolding() {
        return !this.#isHeldTooLong && this.#layers.some((layer) => !layer.answer);
    }
    /** The answer of a mutation has arrived. */
    #ended() {
        if (this.#layers.every((layer) => layer.answer)) {
            clearTimeout(this.#holdTimer);
            this.#holdTimer = undefined;
            this.#isHeldTooLong = false;
        }
        if (!this.#isHolding())
            this.#settle();
        else
            this.#show();
    }
    /** Takes over the newest state, and drops the layers that it contains. */
    #settle() {
        const isNews = this.newest !== this.#base;
        this.#base = this.newest;
        for (const layer of [...this.#layers]) {
            const { answer } = layer;
            if (!answer)
                continue;
            const settled = this.newest.settled ?? this.newest.version;
            const isLater = this.#frames > answer.frames && replaces(settled, answer.version);
            if (isLater || covers(settled, answer.version))
                this.#remove(layer);
        }
        this.#show();
        const error = isNews ? errorOf(this.#base) : undefined;
        if (error)
            this.fail(error);
    }
    /** A change whose result is equal makes no frame; then the client asks for a state that contains it. */
    #askFor(layer, afterMs = SETTLE_MS) {
        layer.timer = setTimeout(() => {
            this.#source()?.ask(this.wanted.id, layer.answer?.version);
            this.#askFor(layer, Math.min(2 * afterMs, SETTLE_MAX_MS));
        }, afterMs);
    }
    #remove(layer) {
        clearTimeout(layer.timer);
        this.#layers = this.#layers.filter((other) => other !== layer);
    }
    #show() {
        if (!this.#base.hasValue) {
            this.#hasShown = false;
            return;
        }
        let value = this.#base.value;
        for (const layer of this.#layers) {
            try {
                value = layer.apply(value);
            }
            catch (error) {
                this.#remove(layer);
                safely(() => {
                    throw error;
                });
            }
        }
        const isOptimistic = this.#layers.length > 0;
        // Numbers and texts stay equal when the server confirms them: listeners are called for that too.
        const isSame = value === this.#shown && isOptimistic === this.#isOptimistic;
        if (this.#hasShown && !this.#isDue && isSame)
            return;
        this.#isDue = false;
        this.#shown = value;
        this.#isOptimistic = isOptimistic;
        this.#hasShown = true;
        for (const listener of this.#present())
            this.#tell(listener);
    }
    /** The listeners, without those that one before them has ended meanwhile. */
    *#present() {
        for (const listener of [...this.#listeners])
            if (this.#listeners.has(listener))
                yield listener;
    }
    #tell(listener) {
        const info = { version: this.#base.version, optimistic: this.#isOptimistic };
        safely(() => listener.onValue(this.#shown, info));
    }
}
function idOf(query, args) {
    return `${query} ${canonical(args)}`;
}
/** Runs a listener. Its error is reported as if nobody had caught it, and does not stop the others. */
function safely(run) {
    try {
        run();
    }
    catch (error) {
        queueMicrotask(() => {
            throw error;
        });
    }
}
// One stream per browser. The tabs of one origin whose caller is the same elect a leader by a Web Lock; the leader holds
// the connection and sends states to the others over a BroadcastChannel. When the leader closes, hangs or has no token
// that the server accepts, another tab takes over and resumes from what the tabs hold. While all of them lack one they
// try in turn, with pauses that double, and each reports its own problem when it has tried twice.
/** A visible follower asks whether the leader is there so often, and takes over when it does not answer. */
const PING_MS = 5_000;
/** A leader that a visible tab hurries has so much time to answer. */
const HURRY_MS = 2_000;
/** Of the messages. Tabs with another one, from before a deployment, have a stream of their own. */
const PROTOCOL = 2;
/** Whether this is a browser's tab that can share. Locks exist in secure contexts only. */
function canShare() {
    return typeof document !== 'undefined' && typeof BroadcastChannel !== 'undefined' && !!globalThis.navigator?.locks;
}
class SharedSource {
    #tab = Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(36)).join('-');
    #name;
    #channel;
    #sink;
    #makeFeed;
    /** What this tab wants, with the newest state. */
    #wanted = new Map();
    /** Leader only. */
    #feed;
    /** Leader only: which tabs want what. */
    #tabs = new Map();
    #leading = new AbortController();
    /** Leader only: the connection's. */
    #status = 'idle';
    /** Leader only: its token failed or was refused, and no state has come since. */
    #refusal;
    /** So often this tab left the lead for that, since a tab last had a connection. */
    #refusals = 0;
    /** Ends the pause before this tab stands again. */
    #rest = new AbortController();
    #closing = new AbortController();
    #heard = 0;
    /** When the leader last said something, by the page's clock. */
    #heardAt = -Infinity;
    #pings = 0;
    #timer;
    #release;
    /** This tab's own lock is held: a leader may watch it. */
    #isHere = false;
    /** The browser gives no locks here: this tab has a connection of its own. */
    #isAlone = false;
    constructor(name, http, timing, sink) {
        this.#name = `sarsen-live:${PROTOCOL}:${name}`;
        this.#sink = sink;
        this.#makeFeed = (feedSink) => new Feed(http, timing, feedSink);
        this.#channel = new BroadcastChannel(this.#name);
        this.#channel.onmessage = (event) => this.#receive(event.data);
        void this.#join();
    }
    want(wanted, held, notBefore) {
        this.#wanted.set(wanted.id, { wanted, state: held, notBefore });
        if (this.#feed)
            this.#add(this.#tab, wanted, held, notBefore);
        else if (this.#isHere)
            this.#post({ kind: 'want', tab: this.#tab, wanted, held, notBefore });
    }
    drop(id) {
        this.#wanted.delete(id);
        if (this.#feed)
            this.#remove(this.#tab, id);
        else
            this.#post({ kind: 'drop', tab: this.#tab, id });
    }
    ask(id, version) {
        if (this.#feed)
            this.#feed.ask(id, version);
        else
            this.#post({ kind: 'ask', tab: this.#tab, id, version });
    }
    hurry() {
        this.#rest.abort();
        if (this.#feed)
            this.#feed.hurry();
        else if (this.#isHere)
            this.#hurryLeader();
    }
    /** A leader that does not answer is suspended, as on phones: the tab that the user looks at does not wait for it. */
    #hurryLeader() {
        const askedAt = performance.now();
        this.#post({ kind: 'hurry', tab: this.#tab });
        setTimeout(() => {
            const isWaiting = !this.#feed && !this.#closing.signal.aborted && this.#wanted.size > 0;
            if (isWaiting && this.#heardAt < askedAt && document.visibilityState === 'visible')
                void this.#steal();
        }, HURRY_MS);
    }
    close() {
        if (this.#closing.signal.aborted)
            return;
        for (const id of this.#wanted.keys())
            if (!this.#feed)
                this.#post({ kind: 'drop', tab: this.#tab, id });
        this.#closing.abort();
        this.#rest.abort();
        clearInterval(this.#timer);
        this.#resign();
        this.#channel.close();
    }
    /** Waits for the lock of this tab, then for the leader's. */
    async #join() {
        const signal = this.#closing.signal;
        try {
            await this.#holdOwnLock(signal);
            this.#isHere = true;
            this.#announce();
            this.#timer = setInterval(() => this.#watch(), PING_MS);
            while (!signal.aborted) {
                await this.#stand(signal);
                this.#rest = new AbortController();
                if (this.#refusals > 0 && !signal.aborted)
                    await sleep(pause(this.#refusals + 1), this.#rest.signal);
            }
        }
        catch {
            // There are no locks in sandboxed frames and where storage is blocked.
            if (!signal.aborted)
                this.#goAlone();
        }
    }
    /**
     * Resolves when the lock of this tab is held, by whose end the leader notices that the tab is gone. A leader that
     * asked for it earlier would take a tab that has just come for one that has gone.
     */
    #holdOwnLock(signal) {
        return new Promise((resolve, reject) => {
            const hold = () => {
                resolve();
                return new Promise((end) => signal.addEventListener('abort', () => end(), { once: true }));
            };
            navigator.locks.request(this.#lockOf(this.#tab), { signal }, hold).catch(reject);
        });
    }
    /** Stands for election once, and leads until that ends. */
    async #stand(signal) {
        try {
            await navigator.locks.request(this.#name, { signal }, () => this.#lead());
        }
        catch (error) {
            // Another tab has stolen the lock because this one did not answer, or this source was closed.
            this.#resign();
            if (!(error instanceof DOMException && error.name === 'AbortError'))
                throw error;
        }
    }
    #goAlone() {
        this.#isAlone = true;
        this.#channel.close();
        clearInterval(this.#timer);
        void this.#lead();
    }
    #lockOf(tab) {
        return `${this.#name}:${tab}`;
    }
    /** Leads until another tab takes over or the source is closed. */
    #lead() {
        if (this.#closing.signal.aborted)
            return Promise.resolve();
        // A tab that steals the lock may have stood for election too.
        this.#feed?.close();
        this.#release?.();
        this.#leading.abort();
        this.#leading = new AbortController();
        this.#tabs.clear();
        this.#status = 'connecting';
        this.#refusal = undefined;
        this.#feed = this.#makeFeed({
            state: (id, state) => {
                this.#refusal = undefined;
                this.#deliver(id, state);
                if (this.#isWantedElsewhere(id))
                    this.#post({ kind: 'state', id, state });
            },
            refused: (id, error) => {
                if (error.code === 'token_failed' || error.status === 401)
                    return this.#failToken(id, error);
                this.#tellRefused(id, error);
            },
            status: (status) => this.#tellStatus(status),
        });
        for (const { wanted, state, notBefore } of this.#wanted.values())
            this.#add(this.#tab, wanted, state, notBefore);
        this.#post({ kind: 'leader' });
        return new Promise((resolve) => (this.#release = resolve));
    }
    #tellRefused(id, error) {
        this.#sink.refused(id, error);
        if (this.#isWantedElsewhere(id))
            this.#post({ kind: 'refused', id, document: error.document, status: error.status });
    }
    /** There is no token, or the server refused it. If other tabs wait for values, one of them may have one that works. */
    #failToken(id, error) {
        // Only a change of the stream failed, which goes on.
        if (this.#status === 'live')
            return this.#tellRefused(id, error);
        this.#refusal = error;
        if ([...this.#tabs.keys()].some((tab) => tab !== this.#tab))
            this.#handOver(error);
        else
            this.#sink.refused(id, error);
    }
    /**
     * Leaves the lead to a tab whose token works; this tab stands again after a pause. If there is no such tab, this one
     * leads again and fails again: only then its listeners get the problem.
     */
    #handOver(error) {
        this.#refusals += 1;
        this.#tellStatus('waiting');
        this.#resign();
        if (this.#refusals > 1)
            for (const id of [...this.#wanted.keys()])
                this.#sink.refused(id, error);
    }
    #tellStatus(status) {
        this.#status = status;
        this.#showStatus(status);
        this.#post({ kind: 'status', status });
    }
    #showStatus(status) {
        // The leader has a token that works.
        if (status === 'live' || status === 'polling')
            this.#refusals = 0;
        this.#sink.status(status);
    }
    #isWantedElsewhere(id) {
        return [...this.#tabs].some(([tab, ids]) => tab !== this.#tab && ids.has(id));
    }
    #resign() {
        this.#leading.abort();
        this.#feed?.close();
        this.#feed = undefined;
        this.#tabs.clear();
        this.#release?.();
        this.#release = undefined;
        if (this.#closing.signal.aborted)
            return;
        // The tab that leads now needs this tab's subscriptions.
        this.#announce();
    }
    #announce() {
        if (!this.#isHere || this.#feed)
            return;
        for (const { wanted, state, notBefore } of this.#wanted.values()) {
            this.#post({ kind: 'want', tab: this.#tab, wanted, held: state, notBefore });
        }
    }
    #receive(message) {
        if ('tab' in message)
            return this.#serve(message);
        if (this.#feed)
            return;
        this.#heard += 1;
        this.#heardAt = performance.now();
        if (message.kind === 'leader')
            this.#announce();
        else if (message.kind === 'status')
            this.#showStatus(message.status);
        else if (!this.#wanted.has(message.id))
            return;
        else if (message.kind === 'state')
            this.#deliver(message.id, message.state);
        else
            this.#sink.refused(message.id, new ProblemError(message.document, message.status));
    }
    /** A follower's message. */
    #serve(message) {
        if (!this.#feed)
            return;
        if (message.kind === 'want' && this.#refusal)
            this.#handOver(this.#refusal);
        else if (message.kind === 'want')
            this.#add(message.tab, message.wanted, message.held, message.notBefore);
        else if (message.kind === 'drop')
            this.#remove(message.tab, message.id);
        else if (message.kind === 'ask')
            this.#feed.ask(message.id, message.version);
        else {
            if (message.kind === 'hurry')
                this.#feed.hurry();
            this.#post({ kind: 'status', status: this.#status });
        }
    }
    #deliver(id, state) {
        const held = this.#wanted.get(id);
        // The leader may have sent a state before it read what this tab asks for.
        if (!held || (!state.isOlder && !replaces(state.version, held.notBefore)))
            return;
        Object.assign(held, { state, notBefore: errorOf(state)?.isPassing ? held.notBefore : undefined });
        this.#sink.state(id, state);
    }
    #add(tab, wanted, held, notBefore) {
        let ids = this.#tabs.get(tab);
        if (!ids) {
            ids = new Set();
            this.#tabs.set(tab, ids);
            if (tab !== this.#tab) {
                this.#watchTab(tab);
                this.#post({ kind: 'status', status: this.#status });
            }
        }
        ids.add(wanted.id);
        this.#feed?.want(wanted, held, notBefore);
    }
    #remove(tab, id) {
        this.#tabs.get(tab)?.delete(id);
        for (const ids of this.#tabs.values())
            if (ids.has(id))
                return;
        this.#feed?.drop(id);
    }
    /** Drops what a tab wants when its lock becomes free: it was closed. */
    #watchTab(tab) {
        const gone = () => {
            const ids = this.#tabs.get(tab) ?? [];
            for (const id of [...ids])
                this.#remove(tab, id);
            this.#tabs.delete(tab);
        };
        navigator.locks.request(this.#lockOf(tab), { signal: this.#leading.signal }, gone).catch(() => { });
    }
    /** A follower that is visible takes over from a leader that does not answer. */
    #watch() {
        if (this.#feed || document.visibilityState !== 'visible' || this.#wanted.size === 0) {
            this.#pings = 0;
            return;
        }
        if (this.#pings > 0 && this.#heard === 0) {
            this.#pings += 1;
            if (this.#pings > 2) {
                this.#pings = 0;
                void this.#steal();
            }
        }
        else {
            this.#pings = 1;
        }
        this.#heard = 0;
        this.#post({ kind: 'ping', tab: this.#tab });
    }
    async #steal() {
        try {
            await navigator.locks.request(this.#name, { steal: true }, () => this.#lead());
        }
        catch {
            this.#resign();
        }
    }
    #post(message) {
        // What ends with the source may still have something to say.
        if (!this.#closing.signal.aborted && !this.#isAlone)
            this.#channel.postMessage(message);
    }
}
// The client: calls, live queries and optimistic changes, typed by the back end's `Api`.
/** Why a call ends to which no answer comes. */
const SILENT = 'silent';
/** What is subscribed to within this time after an answer is not older than that: another instance may not have heard of it. */
const WRITTEN_MS = 10_000;
/** So often `call` repeats a mutation with an idempotency key. */
const REPEATS = 3;
/** It does not repeat where the server asks for a longer pause, in seconds. */
const RETRY_AFTER_MAX = 30;
class Client {
    #http;
    #timing;
    #url;
    #share;
    #subscriptions;
    #source;
    #connecting = false;
    /** Ends the pause before the token source is asked again. */
    #rest = new AbortController();
    #closed = false;
    /** The newest version of this client's answers: queries read a state that is not older. */
    #version;
    /** The ends of the calls that have an order, by queue. */
    #queues = new Map();
    /** When that answer came, by the page's clock. */
    #answeredAt = -Infinity;
    #hurry = () => {
        this.#rest.abort();
        this.#source?.hurry();
    };
    /** The user looks at the tab again: another one may have signed in elsewhere, which a tab without requests cannot see. */
    #seen = () => {
        if (typeof document !== 'undefined' && document.visibilityState !== 'visible')
            return;
        this.#hurry();
        if (this.#source)
            this.#http.tokens.get().catch(() => { });
    };
    /** The browser may keep the page and show it again. WebKit ends the page's locks meanwhile without telling it. */
    #left = () => {
        this.#source = undefined;
        this.#subscriptions.release();
    };
    #back = (event) => {
        if (event.persisted && !this.#closed && !this.#subscriptions.isEmpty)
            void this.#connect();
    };
    constructor(options = {}) {
        this.#timing = { ...TIMING, ...options.timing };
        const tokens = new Tokens(options.token, this.#timing.token);
        tokens.onCaller = () => this.#restart();
        this.#url = options.url ?? (typeof location === 'undefined' ? '' : location.origin);
        this.#http = new Http(this.#url, tokens, options.fetch ?? ((...request) => fetch(...request)));
        this.#share = (options.share ?? true) && canShare();
        const written = () => (performance.now() - this.#answeredAt < WRITTEN_MS ? this.#version : undefined);
        this.#subscriptions = new Subscriptions(() => void this.#connect(), written);
        globalThis.addEventListener?.('online', this.#hurry);
        globalThis.addEventListener?.('pagehide', this.#left);
        globalThis.addEventListener?.('pageshow', this.#back);
        globalThis.addEventListener?.('pageshow', this.#seen);
        // Another window may have been used beside this one, which was visible all the time.
        globalThis.addEventListener?.('focus', this.#seen);
        if (typeof document !== 'undefined')
            document.addEventListener('visibilitychange', this.#seen);
    }
    /** Calls a query or a mutation. Rejects with a `ProblemError` or a `ConnectionError`. */
    async call(name, args, options = {}) {
        const layers = [];
        const update = (query, of, change) => {
            const apply = (value) => change(value);
            const layer = this.#subscriptions.apply(query, (of ?? {}), { apply });
            if (layer)
                layers.push(layer);
        };
        const updateAll = (query, change) => {
            layers.push(...this.#subscriptions.applyToAll(query, (value, of) => change(value, of)));
        };
        try {
            options.optimistic?.({ update, updateAll });
            // As they are now: the application may change its object before the request is sent, or sent again.
            const sent = JSON.parse(JSON.stringify(args ?? {}));
            const send = (caller) => this.#send(name, sent, options, caller);
            const answer = await (options.queue === undefined ? send() : this.#inTurn(options.queue, options.signal, send));
            layers.forEach((layer) => layer.answered(answer.version));
            return answer;
        }
        catch (error) {
            layers.forEach((layer) => layer.drop());
            throw error;
        }
    }
    /**
     * Subscribes to a query: `onValue` receives the present value, and each later one. Equal subscriptions share one. After
     * `onError` the subscription goes on: a value follows if the problem passes. Returns what ends the subscription.
     */
    live(query, args, onValue, onError) {
        if (this.#closed)
            throw new Error('The client is closed. Make a new one.');
        const listener = { onValue: onValue, onError };
        return this.#subscriptions.listen(query, (args ?? {}), listener);
    }
    /** Calls back with the state of the connection, now and whenever it changes. Returns what ends that. */
    onStatus(listener) {
        return this.#subscriptions.onStatus(listener);
    }
    /**
     * The user has signed in or out: asks `token` anew, and starts over if another caller is signed in now. If `token`
     * throws, this rejects, and the values of the user before are forgotten.
     */
    async signedIn() {
        await this.#http.tokens.signedIn();
        this.#hurry();
    }
    /** Ends all subscriptions. */
    close() {
        this.#closed = true;
        this.#source = undefined;
        this.#rest.abort();
        this.#subscriptions.close();
        globalThis.removeEventListener?.('online', this.#hurry);
        globalThis.removeEventListener?.('pagehide', this.#left);
        globalThis.removeEventListener?.('pageshow', this.#back);
        globalThis.removeEventListener?.('pageshow', this.#seen);
        globalThis.removeEventListener?.('focus', this.#seen);
        if (typeof document !== 'undefined')
            document.removeEventListener('visibilitychange', this.#seen);
    }
    /** Sends a call when those of its queue that were made before have ended, however they did. */
    async #inTurn(queue, signal, send) {
        // Whoever is signed in when its turn comes: it is of the caller of now. A source that fails tells so then.
        const tokens = this.#http.tokens;
        const { caller, token, signedInAt } = tokens.known;
        const isVoid = () => signedInAt !== tokens.known.signedInAt;
        // Another tab may have signed in somebody else: then it is of whom this page shows.
        const isOther = () => isVoid() || namesOther(token, tokens.known.token);
        const whose = tokens.caller().then((of) => (isOther() ? caller : of), () => caller);
        const before = this.#queues.get(queue) ?? Promise.resolve();
        let end = () => { };
        const own = new Promise((resolve) => (end = resolve));
        // Also one that is aborted ends only after those before it.
        const all = before.then(() => own);
        this.#queues.set(queue, all);
        void all.then(() => this.#queues.get(queue) === all && this.#queues.delete(queue));
        const abort = aborted(signal);
        try {
            await Promise.race([before, abort.happens]);
            const of = await Promise.race([whose, abort.happens]);
            // Nobody knew whose it is before somebody signed in.
            if (of === undefined && isVoid())
                throw callerChanged();
            return await send(of);
        }
        finally {
            abort.stop();
            end();
        }
    }
    async #send(name, body, options, caller) {
        const headers = {};
        if (options.idempotencyKey !== undefined)
            headers['Idempotency-Key'] = options.idempotencyKey;
        if (this.#version)
            headers['Sarsen-Version'] = this.#version;
        const signal = options.signal ?? new AbortController().signal;
        // One object for all attempts: they are of one caller.
        const request = { method: 'POST', path: `/rpc/${encodeURIComponent(name)}`, body, headers, ...(caller !== undefined && { caller }) };
        let last;
        for (let attempt = 0;; attempt += 1) {
            try {
                const answer = await this.#attempt(request, signal);
                if (replaces(answer.version, this.#version))
                    this.#version = answer.version;
                this.#answeredAt = performance.now();
                return answer;
            }
            catch (error) {
                if (error instanceof TokenError)
                    throw error.cause;
                if (error instanceof ProblemError && error.code === 'caller_changed')
                    throw last ?? error;
                last = error;
                const isPassing = error instanceof ConnectionError || (error instanceof ProblemError && error.isPassing);
                if (options.idempotencyKey === undefined || !isPassing || attempt >= REPEATS)
                    throw error;
                const retryAfter = error instanceof ProblemError ? (error.retryAfter ?? 0) : 0;
                if (retryAfter > RETRY_AFTER_MAX)
                    throw error;
                if (!(await sleep(pause(attempt, retryAfter * 1000), signal)))
                    throw signal.reason;
            }
        }
    }
    /** Sends a call once. An answer that does not come is a connection that failed. */
    async #attempt(request, signal) {
        const abort = new AbortController();
        const stop = () => abort.abort(signal.reason);
        const watchdog = new Watchdog(() => abort.abort(SILENT));
        if (signal.aborted)
            stop();
        signal.addEventListener('abort', stop, { once: true });
        try {
            Object.assign(request, { signal: abort.signal, ...watchedBy(watchdog, this.#timing.call) });
            const response = await this.#http.send(request);
            return checked(await bodyOf(response, abort.signal));
        }
        catch (error) {
            if (abort.signal.reason !== SILENT)
                throw error;
            throw new ConnectionError(new Error(`No answer came within ${this.#timing.call} ms.`));
        }
        finally {
            watchdog.stop();
            signal.removeEventListener('abort', stop);
        }
    }
    /** Makes the source of live queries, for the present caller. */
    async #connect() {
        if (this.#connecting || this.#source || this.#closed)
            return;
        this.#connecting = true;
        const sink = this.#subscriptions;
        let caller;
        // Tabs share only with tabs of the same caller. Without a token nobody knows whose this one is.
        for (let attempt = 0; this.#share && caller === undefined && !sink.isEmpty; attempt += 1) {
            sink.status('connecting');
            try {
                caller = await this.#http.tokens.caller();
            }
            catch (error) {
                if (sink.isEmpty)
                    break;
                sink.fail(tokenFailed(error));
                sink.status('waiting');
                this.#rest = new AbortController();
                await sleep(pause(attempt), this.#rest.signal);
            }
        }
        this.#connecting = false;
        if (sink.isEmpty)
            return sink.status('idle');
        this.#source = (caller && this.#shared(caller)) || new Feed(this.#http, this.#timing, sink);
        sink.use(this.#source);
    }
    #shared(caller) {
        try {
            return new SharedSource(`${this.#url} ${caller}`, this.#http, this.#timing, this.#subscriptions);
        }
        catch {
            // Firefox has no channels between tabs where it blocks cookies.
            return undefined;
        }
    }
    /** Another caller is signed in: nothing of the one before may be shown. */
    #restart() {
        this.#version = undefined;
        this.#source = undefined;
        this.#subscriptions.reset();
    }
}
/** Rejects when the signal aborts, until it is stopped. */
function aborted(signal) {
    let abort = () => { };
    const happens = new Promise((_, reject) => {
        abort = () => reject(signal?.reason);
        if (signal?.aborted)
            abort();
        signal?.addEventListener('abort', abort, { once: true });
    });
    // Nobody may be waiting any more.
    happens.catch(() => { });
    return { happens, stop: () => signal?.removeEventListener('abort', abort) };
}
/** An answer of a call. A version that cannot be sent back would make all later calls fail. */
function checked(body) {
    const version = body?.version;
    if (typeof version === 'string' && /^[\x21-\x7e]{1,128}$/.test(version))
        return body;
    throw new ConnectionError(new Error('The answer is not one of a call: it has no version.'));
}
/** The JSON of an answer. An answer that is cut, or a proxy's page instead of it, is no answer. */
async function bodyOf(response, signal) {
    try {
        return await response.json();
    }
    catch (error) {
        throw signal.aborted ? error : new ConnectionError(error);
    }
}
export { Client, ConnectionError, ProblemError };
