import {execFile} from 'node:child_process';
import {createHash, createHmac, createPublicKey, randomBytes, verify, X509Certificate} from 'node:crypto';
import {once} from 'node:events';
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {get, type IncomingMessage, type ServerResponse} from 'node:http';
import {createServer} from 'node:https';
import type {AddressInfo} from 'node:net';
import {tmpdir} from 'node:os';
import path from 'node:path';
import type {Duplex} from 'node:stream';
import {text} from 'node:stream/consumers';
import {connect} from 'node:tls';
import {promisify} from 'node:util';
import {type Certificate, issueCertificate, makeCertificate} from './certificate.ts';
import type {Teardown} from './fake-mx.ts';

/** Where a name leads, as the CA's look-up would say. */
export type Target = {readonly host: string; readonly http: number; readonly tls: number};

const steps = [
	'directory',
	'nonce',
	'account',
	'order',
	'authorization',
	'challenge',
	'finalize',
	'poll',
	'certificate',
] as const;
export type Step = (typeof steps)[number];

/** What goes wrong with one request. */
export type ScriptedFault = {
	readonly step: Step;
	/** Of the answer; null: the connection is closed without one. */
	readonly status: number | null;
	readonly type?: string;
	readonly retryAfter?: string;
	/** The request is carried out all the same. */
	readonly isDone?: boolean;
};

/** What the CA does; may be changed while it runs. */
export type Behaviour = {
	/** Each is the answer to the next request of its step. */
	faults: ScriptedFault[];
	/** So many more polls of finalized orders see them as `ready`. */
	readyPolls: number;
	/** So many more requests to finalize an order are answered and forgotten. */
	lostFinalizes: number;
	/** So many more requests get `badNonce`, as if their nonces had expired. */
	expiredNonces: number;
	/** Of new orders: the CA's limit is reached. `Retry-After` of the answer. */
	limited: string | null;
	/** Connections end without an answer. */
	away: boolean;
	/** Finalized orders end as `invalid`. */
	failing: boolean;
	/** Finalized orders stay `processing` until this is false; or those of some names. */
	holding: boolean | readonly string[];
	/** Of the next certificates, milliseconds since the epoch; null: it begins now and lasts 90 days. */
	life: {readonly from: number; readonly until: number} | null;
	/** What it says about renewals, milliseconds; null: it has no `renewalInfo` for them. */
	window: {readonly start: number; readonly end: number} | null;
	/** Offered proofs. */
	offers: readonly string[];
	/** Where names lead. */
	target: (name: string) => Target | undefined;
};

type Order = {
	readonly account: string;
	readonly name: string;
	readonly replaces: string | null;
	readonly tokens: ReadonlyArray<{readonly type: string; readonly token: string}>;
	proof: 'pending' | 'valid' | 'invalid';
	fault: object | null;
	status: 'pending' | 'ready' | 'processing' | 'valid' | 'invalid';
	chain: string | null;
};

export type AcmeServer = {
	/** For MAILCTL_ACME_DIRECTORY. */
	readonly directory: string;
	/** Of the server's own https, PEM. */
	readonly ca: string;
	/** By which the certificates that it gives are signed. */
	readonly authority: Certificate;
	readonly behaviour: Behaviour;
	readonly orders: readonly Order[];
	/** What was done to prove names: `http-01 mail.test`. */
	readonly looks: readonly string[];
	/** Contacts of the accounts, by their URLs. */
	readonly accounts: ReadonlyMap<string, {readonly contact: readonly string[]; readonly bound: string | null}>;
	readonly forgetAccounts: () => void;
	/** As their owner or the CA can. */
	readonly closeAccounts: () => void;
	/** The steps of all requests so far. */
	readonly requests: readonly Step[];
};

const run = promisify(execFile);
// A machine that stands still for a while must look neither like an expired nonce nor like a port that is closed.
const nonceMs = 600_000;
const proofMs = 30_000;

/** A CA for tests (RFC 8555, RFC 8737, RFC 9773); `eab`: accounts are bound to it. It proves names by really asking. */
export async function startAcmeServer(
	t: Teardown,
	target: Behaviour['target'],
	{eab = null}: {readonly eab?: {readonly kid: string; readonly key: string} | null} = {},
): Promise<AcmeServer> {
	const own = makeCertificate('127.0.0.1');
	const authority = issueCertificate(makeCertificate('Lab root'), ['Lab CA'], {isAuthority: true});
	const behaviour: Behaviour = {
		...{expiredNonces: 0, limited: null, away: false, failing: false, holding: false, life: null, window: null},
		...{offers: ['http-01', 'tls-alpn-01', 'dns-01'], target, faults: [], readyPolls: 0, lostFinalizes: 0},
	};
	const requests: Step[] = [];
	const nonces = new Map<string, number>();
	const accounts = new Map<
		string,
		{
			contact: string[];
			bound: string | null;
			isClosed: boolean;
			jwk: object;
			key: ReturnType<typeof createPublicKey>;
		}
	>();
	const orders: Order[] = [];
	const looks: string[] = [];
	const sockets = new Set<Duplex>();
	const server = createServer(own, (request, response) => {
		answer(request, response).catch(error => response.destroy(error));
	});
	server.on('connection', socket => {
		sockets.add(socket);
		socket.on('close', () => sockets.delete(socket));
	});
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	t.teardown(() => {
		server.close();
		for (const socket of sockets) {
			socket.destroy();
		}
	});
	const base = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;

	class Problem extends Error {
		readonly status: number;
		readonly type: string;
		readonly headers: Record<string, string>;
		constructor(status: number, type: string, detail: string, headers: Record<string, string> = {}) {
			super(detail);
			Object.assign(this, {status, type, headers});
			this.status = status;
			this.type = type;
			this.headers = headers;
		}
	}

	async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
		if (behaviour.away) {
			request.socket.destroy();
			return;
		}
		const {pathname} = new URL(request.url ?? '', base);
		const step = stepOf(pathname);
		requests.push(...(step === undefined ? [] : [step]));
		const planned = behaviour.faults.findIndex(one => one.step === step);
		const [fault] = planned === -1 ? [] : behaviour.faults.splice(planned, 1);
		const fail = () => {
			if (fault?.status == null) {
				request.socket.destroy();
				return;
			}
			const {status, type, retryAfter} = fault;
			response.writeHead(status, retryAfter === undefined ? {} : {'retry-after': retryAfter});
			response.end(
				type && JSON.stringify({type: `urn:ietf:params:acme:error:${type}`, detail: 'It is scripted.'}),
			);
		};
		if (fault !== undefined && !fault.isDone) {
			// As of a machine before the CA: without a nonce.
			fail();
			return;
		}
		const nonce = randomBytes(16).toString('base64url');
		nonces.set(nonce, Date.now() + nonceMs);
		// As of Let's Encrypt, whose directory gives none.
		if (step !== 'directory') {
			response.setHeader('replay-nonce', nonce);
		}
		response.setHeader('cache-control', 'no-store');
		response.setHeader('link', `<${base}/directory>;rel="index"`);
		const send = (status: number, body: unknown, headers: Record<string, string> = {}) => {
			if (fault !== undefined) {
				fail();
				return;
			}
			response.writeHead(status, {'content-type': 'application/json', ...headers});
			response.end(typeof body === 'string' ? body : JSON.stringify(body));
		};
		try {
			if (request.method !== 'POST') {
				return await read(pathname, send);
			}
			const body = await text(request);
			if (request.headers['content-type'] !== 'application/jose+json') {
				throw new Problem(415, 'malformed', 'The content type must be application/jose+json.');
			}
			await serve(pathname, open(body, pathname), send);
		} catch (error) {
			if (!(error instanceof Problem)) {
				throw error;
			}
			const problem = {
				type: `urn:ietf:params:acme:error:${error.type}`,
				detail: error.message,
				status: error.status,
			};
			send(error.status, problem, {'content-type': 'application/problem+json', ...error.headers});
		}
	}

	type Send = (status: number, body: unknown, headers?: Record<string, string>) => void;
	// biome-ignore lint/suspicious/noExplicitAny: what clients send is looked at field by field.
	type Opened = {payload: any; account: string; head: any; key: ReturnType<typeof createPublicKey>};

	async function read(pathname: string, send: Send): Promise<void> {
		if (pathname === '/directory') {
			const url = (name: string) => `${base}/${name}`;
			send(200, {
				...{
					newNonce: url('nonce'),
					newAccount: url('account'),
					newOrder: url('order'),
					revokeCert: url('revoke'),
				},
				...{keyChange: url('key'), renewalInfo: url('renewal')},
				meta: {externalAccountRequired: eab !== null, termsOfService: url('terms')},
			});
		} else if (pathname === '/nonce') {
			send(200, '');
		} else if (pathname.startsWith('/renewal/') && behaviour.window !== null) {
			const id = pathname.slice('/renewal/'.length);
			const isKnown = orders.some(({chain}) => chain !== null && idOf(chain) === id);
			const {start, end} = behaviour.window;
			const suggestedWindow = {start: new Date(start).toISOString(), end: new Date(end).toISOString()};
			send(isKnown ? 200 : 404, {suggestedWindow}, {'retry-after': '3600'});
		} else {
			send(404, {});
		}
	}

	/** Checks what RFC 8555 §6 asks of a request. */
	function open(body: string, pathname: string): Opened {
		const {protected: protectedHead, payload, signature} = JSON.parse(body);
		const head = JSON.parse(Buffer.from(protectedHead, 'base64url').toString());
		const expires = nonces.get(head.nonce);
		nonces.delete(head.nonce);
		if (expires === undefined || expires < Date.now() || behaviour.expiredNonces > 0) {
			behaviour.expiredNonces = Math.max(0, behaviour.expiredNonces - 1);
			throw new Problem(400, 'badNonce', 'The nonce has expired.');
		}
		if (head.url !== base + pathname || 'jwk' in head === 'kid' in head) {
			throw new Problem(400, 'malformed', 'The header has the wrong URL, or not one of jwk and kid.');
		}
		const known = head.kid === undefined ? undefined : accounts.get(head.kid);
		if (head.kid !== undefined && known === undefined) {
			throw new Problem(400, 'accountDoesNotExist', 'There is no such account.');
		}
		if (known?.isClosed) {
			throw new Problem(403, 'unauthorized', 'The account is deactivated.');
		}
		if ('jwk' in head !== (pathname === '/account')) {
			throw new Problem(400, 'malformed', 'Only a new account brings its key.');
		}
		const key = known?.key ?? createPublicKey({key: head.jwk, format: 'jwk'});
		const isSigned = verify(
			'sha256',
			Buffer.from(`${protectedHead}.${payload}`),
			{key, dsaEncoding: 'ieee-p1363'},
			Buffer.from(signature, 'base64url'),
		);
		if (!isSigned || !['ES256', 'RS256'].includes(head.alg)) {
			throw new Problem(403, 'malformed', 'The signature is wrong.');
		}
		return {
			payload: payload === '' ? null : JSON.parse(Buffer.from(payload, 'base64url').toString()),
			account: head.kid,
			head,
			key,
		};
	}

	async function serve(pathname: string, opened: Opened, send: Send): Promise<void> {
		const {payload, account} = opened;
		const [, what, number = '', part = ''] = pathname.split('/');
		if (what === 'account' && number === '') {
			return newAccount(opened, send);
		}
		if (what === 'account') {
			const known = accounts.get(account);
			if (known !== undefined && payload?.contact !== undefined) {
				known.contact = payload.contact;
			}
			return send(200, {status: 'valid', contact: known?.contact});
		}
		if (what === 'order' && number === '') {
			return newOrder(opened, send);
		}
		const order = orders[Number(number)];
		if (order === undefined || order.account !== account) {
			throw new Problem(404, 'malformed', 'There is no such order.');
		}
		const at = `${base}/order/${number}`;
		const challenges = order.tokens.map(({type, token}) => ({
			...{type, token, url: `${at}/challenge-${type}`, status: order.proof},
			...(order.fault !== null && {error: order.fault}),
		}));
		if (part === 'authorization') {
			const identifier = {type: 'dns', value: order.name};
			return send(200, {identifier, status: order.proof, challenges, expires: soon()});
		}
		if (part.startsWith('challenge-')) {
			const type = part.slice('challenge-'.length);
			if (order.proof !== 'pending' && payload !== null) {
				// As Pebble does.
				throw new Problem(400, 'malformed', `The authorization is ${order.proof}.`);
			}
			if (payload !== null) {
				await look(order, type, opened);
			}
			return send(
				200,
				challenges.find(one => one.type === type),
				{link: `<${at}/authorization>;rel="up"`},
			);
		}
		if (part === 'certificate') {
			return send(200, order.chain ?? '', {'content-type': 'application/pem-certificate-chain'});
		}
		if (part === 'finalize') {
			if (order.status !== 'ready') {
				throw new Problem(403, 'orderNotReady', `The order is ${order.status}.`);
			}
			if (behaviour.lostFinalizes > 0) {
				behaviour.lostFinalizes--;
			} else {
				order.chain = await signRequest(order, Buffer.from(payload.csr, 'base64url'));
				order.status = behaviour.failing ? 'invalid' : 'processing';
			}
		}
		const {holding} = behaviour;
		const isBehind = order.chain !== null && part === '' && behaviour.readyPolls > 0;
		if (isBehind) {
			behaviour.readyPolls--;
			return send(200, {status: 'ready', finalize: `${at}/finalize`}, {location: at});
		}
		if (order.status === 'processing' && !(typeof holding === 'boolean' ? holding : holding.includes(order.name))) {
			order.status = 'valid';
		}
		const error = {type: 'urn:ietf:params:acme:error:serverInternal', detail: 'The HSM is out of order.'};
		send(
			200,
			{
				status: order.status,
				...{
					identifiers: [{type: 'dns', value: order.name}],
					authorizations: [`${at}/authorization`],
					expires: soon(),
				},
				finalize: `${at}/finalize`,
				...(order.status === 'valid' && {certificate: `${at}/certificate`}),
				...(order.status === 'invalid' && {error: order.fault ?? error}),
			},
			{location: at},
		);
	}

	function newAccount({payload, head, key}: Opened, send: Send): void {
		const found = [...accounts].find(([, one]) => JSON.stringify(one.jwk) === JSON.stringify(head.jwk));
		if (found) {
			send(200, {status: 'valid'}, {location: found[0]});
			return;
		}
		if (payload.onlyReturnExisting) {
			throw new Problem(400, 'accountDoesNotExist', 'There is no such account.');
		}
		const bound = eab === null ? null : binding(payload.externalAccountBinding, head.jwk);
		const url = `${base}/account/${accounts.size + 1}`;
		accounts.set(url, {contact: payload.contact ?? [], bound, isClosed: false, jwk: head.jwk, key});
		send(201, {status: 'valid', contact: payload.contact ?? []}, {location: url});
	}

	/** RFC 8555 §7.3.4. */
	function binding(given: {protected: string; payload: string; signature: string} | undefined, jwk: object): string {
		if (given === undefined) {
			throw new Problem(403, 'externalAccountRequired', 'An account needs a binding.');
		}
		const head = JSON.parse(Buffer.from(given.protected, 'base64url').toString());
		const inner = JSON.parse(Buffer.from(given.payload, 'base64url').toString());
		const key = Buffer.from(eab?.key ?? '', 'base64url');
		const mac = createHmac('sha256', key).update(`${given.protected}.${given.payload}`).digest('base64url');
		const isRight = head.alg === 'HS256' && head.kid === eab?.kid && head.url === `${base}/account`;
		if (!isRight || mac !== given.signature || JSON.stringify(inner) !== JSON.stringify(jwk)) {
			throw new Problem(403, 'unauthorized', 'The binding is wrong.');
		}
		return head.kid;
	}

	function newOrder({payload, account}: Opened, send: Send): void {
		if (behaviour.limited !== null) {
			const headers = behaviour.limited === '' ? {} : {'retry-after': behaviour.limited};
			throw new Problem(429, 'rateLimited', 'Too many certificates were given.', headers);
		}
		const [identifier] = payload.identifiers;
		const replaces = payload.replaces ?? null;
		if (replaces !== null) {
			const former = orders.find(({chain}) => chain !== null && idOf(chain) === replaces);
			if (former === undefined) {
				throw new Problem(400, 'malformed', 'The certificate to be replaced is unknown.');
			}
			if (former.account !== account) {
				throw new Problem(403, 'unauthorized', 'Another account requested the certificate to be replaced.');
			}
			if (orders.some(order => order.replaces === replaces && order.status !== 'invalid')) {
				throw new Problem(409, 'alreadyReplaced', 'The certificate was replaced already.');
			}
		}
		const tokens = behaviour.offers.map(type => ({type, token: randomBytes(24).toString('base64url')}));
		const rest = {proof: 'pending', fault: null, status: 'pending', chain: null} as const;
		orders.push({account, name: identifier.value, replaces, tokens, ...rest});
		const at = `${base}/order/${orders.length - 1}`;
		const body = {status: 'pending', identifiers: payload.identifiers, authorizations: [`${at}/authorization`]};
		send(201, {...body, finalize: `${at}/finalize`, expires: soon()}, {location: at});
	}

	async function look(order: Order, type: string, {account}: Opened): Promise<void> {
		const {jwk} = accounts.get(account) as {jwk: Record<string, string>};
		const members = Object.fromEntries(
			['crv', 'e', 'kty', 'n', 'x', 'y'].filter(one => one in jwk).map(one => [one, jwk[one]]),
		);
		const thumbprint = createHash('sha256').update(JSON.stringify(members)).digest('base64url');
		const token = order.tokens.find(one => one.type === type)?.token ?? '';
		looks.push(`${type} ${order.name}`);
		const at = behaviour.target(order.name);
		const fault =
			at === undefined
				? {type: 'dns', detail: `No address was found for ${order.name}.`}
				: await (type === 'http-01' ? proveByHttp : proveByTls)(
						at,
						order.name,
						token,
						`${token}.${thumbprint}`,
					);
		order.proof = fault === null ? 'valid' : 'invalid';
		order.status = fault === null ? 'ready' : 'invalid';
		order.fault = fault && {...fault, type: `urn:ietf:params:acme:error:${fault.type}`, status: 400};
	}

	async function signRequest({name}: Order, request: Buffer): Promise<string> {
		const folder = mkdtempSync(path.join(tmpdir(), 'mailctl-ca-'));
		const file = (leaf: string, content: string | Buffer) => {
			const full = path.join(folder, leaf);
			writeFileSync(full, content);
			return full;
		};
		try {
			const lines = request.toString('base64').replace(/.{64}(?=.)/g, '$&\n');
			const csr = file(
				'csr.pem',
				`-----BEGIN CERTIFICATE REQUEST-----\n${lines}\n-----END CERTIFICATE REQUEST-----\n`,
			);
			const {stdout} = await run('openssl', ['req', '-in', csr, '-noout', '-text', '-verify']);
			if (!stdout.includes(`DNS:${name}\n`)) {
				throw new Problem(400, 'badCSR', 'The request is not for the name of the order.');
			}
			file('index', '');
			const config = file(
				'ca.cnf',
				`[ca]\ndefault_ca=lab\n[lab]\ndatabase=${folder}/index\nnew_certs_dir=${folder}\nrand_serial=yes\ndefault_md=sha256\npolicy=any\nunique_subject=no\n[any]\ncommonName=optional\n[leaf]\nsubjectAltName=DNS:${name}\nauthorityKeyIdentifier=keyid\nextendedKeyUsage=serverAuth\n`,
			);
			const {from, until} = behaviour.life ?? {from: Date.now() - 60_000, until: Date.now() + 90 * 86_400_000};
			const out = path.join(folder, 'leaf.pem');
			await run('openssl', [
				...['ca', '-batch', '-notext', '-config', config, '-extensions', 'leaf', '-in', csr, '-out', out],
				...['-cert', file('authority.pem', authority.cert.split(/(?<=END CERTIFICATE-----\n)/)[0] ?? '')],
				...['-keyfile', file('authority.key', authority.key), '-subj', '/'],
				...['-startdate', asn1Time(from), '-enddate', asn1Time(until)],
			]);
			return readFileSync(out, 'utf8') + authority.cert;
		} finally {
			rmSync(folder, {recursive: true, force: true});
		}
	}

	return {
		...{directory: `${base}/directory`, ca: own.cert, authority, behaviour, orders, looks, accounts, requests},
		forgetAccounts: () => accounts.clear(),
		closeAccounts() {
			for (const account of accounts.values()) {
				account.isClosed = true;
			}
		},
	};
}

/** Undefined: it is no step of an order. */
function stepOf(pathname: string): Step | undefined {
	const [, what = '', number, part = 'poll'] = pathname.split('/');
	const name = what === 'order' && number !== undefined ? part.replace(/-.*$/, '') : what;
	return steps.find(step => step === name);
}

const soon = (): string => new Date(Date.now() + 3_600_000).toISOString();
const asn1Time = (ms: number): string => `${new Date(ms).toISOString().replace(/[-:T]/g, '').slice(0, 14)}Z`;

/** RFC 9773 §4.1, by OpenSSL's words. */
function idOf(chain: string): string {
	const {serialNumber, raw} = new X509Certificate(chain);
	const at = raw.indexOf(Buffer.from('0603551d23', 'hex'));
	const keyId = raw.subarray(at + 11, at + 31);
	const serial = Buffer.from(serialNumber, 'hex');
	const padded = (serial[0] ?? 0) >= 0x80 ? Buffer.concat([Buffer.from([0]), serial]) : serial;
	return `${keyId.toString('base64url')}.${padded.toString('base64url')}`;
}

type Problem = {readonly type: string; readonly detail: string} | null;

/** RFC 8555 §8.3. */
function proveByHttp({host, http}: Target, name: string, token: string, expected: string): Promise<Problem> {
	return new Promise(resolve => {
		const asked = get({
			host,
			port: http,
			path: `/.well-known/acme-challenge/${token}`,
			headers: {host: name},
			timeout: proofMs,
			// Kept open, it might be closed by the server at the moment in which the next proof uses it.
			agent: false,
		});
		asked.on('timeout', () => asked.destroy(new Error('Timeout during connect')));
		asked.on('error', ({message}) =>
			resolve({type: 'connection', detail: `Fetching the token failed: ${message}`}),
		);
		asked.on('response', async response => {
			const found = await text(response);
			const isRight = response.statusCode === 200 && found.trim() === expected;
			resolve(
				isRight
					? null
					: {type: 'unauthorized', detail: `The answer was ${response.statusCode} "${found.slice(0, 40)}"`},
			);
		});
	});
}

/** RFC 8737 §3. */
function proveByTls({host, tls}: Target, name: string, _token: string, expected: string): Promise<Problem> {
	return new Promise(resolve => {
		const socket = connect({
			host,
			port: tls,
			servername: name,
			ALPNProtocols: ['acme-tls/1'],
			rejectUnauthorized: false,
		});
		const end = (fault: Problem) => {
			socket.destroy();
			resolve(fault);
		};
		socket.setTimeout(proofMs, () => end({type: 'connection', detail: 'Timeout during connect'}));
		socket.on('error', ({message}) => end({type: 'connection', detail: `The handshake failed: ${message}`}));
		socket.on('secureConnect', () => {
			const certificate = socket.getPeerX509Certificate();
			const digest = createHash('sha256').update(expected).digest();
			const proof = Buffer.concat([Buffer.from('06082b0601050507011f0101ff04220420', 'hex'), digest]);
			const isRight =
				socket.alpnProtocol === 'acme-tls/1' &&
				certificate?.subjectAltName === `DNS:${name}` &&
				certificate.raw.includes(proof);
			const shown = `${socket.alpnProtocol} ${certificate?.subjectAltName}`;
			end(isRight ? null : {type: 'unauthorized', detail: `The certificate is no proof: ${shown}.`});
		});
	});
}
