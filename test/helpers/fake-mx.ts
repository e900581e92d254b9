import {once} from 'node:events';
import {type AddressInfo, createServer, type Server, type Socket} from 'node:net';
import {createSecureContext, type SecureContextOptions, TLSSocket} from 'node:tls';
import type {Certificate} from './certificate.ts';

/**
 * What the server does at a step: a reply (several lines by `\n`; the last may differ in nothing but its text), `drop`
 * the connection, `reset` it, say nothing (`never`), not even read (`freeze`), take the mail and
 * say nothing (`take`), or send bytes as they are.
 */
export type Answer =
	| string
	| {readonly do: 'drop' | 'reset' | 'never' | 'freeze' | 'take'}
	| {readonly bytes: Buffer | string};

export type Step =
	| 'greeting'
	| 'ehlo'
	| 'helo'
	| 'starttls'
	| 'auth'
	/** Lines that belong to AUTH. */
	| 'credentials'
	| 'mail'
	| 'rcpt'
	| 'data'
	/** When the body began to arrive. */
	| 'body'
	| 'dot'
	| 'rset'
	| 'quit'
	| 'other';

/**
 * One answer for always; a list: one after the other over all connections, then as if none was given; a function:
 * asked.
 */
export type Script = Answer | readonly Answer[] | ((line: string, connection: FakeConnection) => Answer | undefined);

export type FakeConnection = {
	/** Every line but the message's. */
	readonly commands: string[];
	/** Whether TLS stands. */
	tls: boolean;
	/** As the client said it in SNI. */
	serverName: string | null;
	readonly remoteAddress: string | undefined;
	/** Sends something unasked. */
	readonly say: (text: string) => void;
	readonly drop: () => void;
};

export type Received = {
	readonly from: string;
	readonly to: readonly string[];
	/** The message, dots removed, the final dot not included. */
	readonly data: Buffer;
	readonly connection: FakeConnection;
};

export type FakeMxOptions = {
	readonly host?: string;
	readonly port?: number;
	/**
	 * EHLO keywords; default `PIPELINING`, `8BITMIME`, `SIZE 52428800`, `ENHANCEDSTATUSCODES`, `STARTTLS` with a
	 * certificate.
	 */
	readonly extensions?: readonly string[];
	readonly tls?: Certificate & SecureContextOptions;
	/** TLS from the first byte. */
	readonly implicitTls?: boolean;
	/** What happens after `220` to STARTTLS: garbage instead of a handshake, or a server that is silent. */
	readonly brokenTls?: 'garbage' | 'silent' | 'drop';
	/** Wants a certificate of the client. */
	readonly wantsCertificate?: boolean;
	/** Drops who begins TLS with a ClientHello of more octets. */
	readonly maxHelloLength?: number;
	/** Ends the data at bare line feeds and carriage returns too, as servers open to SMTP smuggling do. */
	readonly lax?: boolean;
	/** Keep no messages, only count them. */
	readonly countOnly?: boolean;
} & {readonly [step in Step]?: Script};

export type FakeMx = {
	readonly host: string;
	readonly port: number;
	readonly connections: FakeConnection[];
	readonly received: Received[];
	/** Messages taken. */
	readonly count: () => number;
	/** Connections that did not say QUIT and are open now, and the most there ever were. */
	readonly open: () => number;
	readonly maxOpen: () => number;
	readonly close: () => Promise<void>;
};

/** The part of an execution context that helpers need. */
export type Teardown = {readonly teardown: (fn: () => void | Promise<void>) => void};

const strictEnd = Buffer.from('\r\n.\r\n');
const defaults: Record<Step, string> = {
	greeting: '220 fake.test ESMTP',
	ehlo: '',
	helo: '250 fake.test',
	starttls: '220 2.0.0 Ready to start TLS',
	auth: '235 2.7.0 Authentication successful',
	credentials: '235 2.7.0 Authentication successful',
	mail: '250 2.1.0 Ok',
	rcpt: '250 2.1.5 Ok',
	data: '354 End data with <CR><LF>.<CR><LF>',
	body: '',
	dot: '250 2.0.0 Ok: queued',
	rset: '250 2.0.0 Ok',
	quit: '221 2.0.0 Bye',
	other: '502 5.5.2 Error: command not recognized',
};

/** Starts a scripted SMTP server on a loopback address; closed by the test's end. */
export async function startFakeMx(t: Teardown | null, options: FakeMxOptions = {}): Promise<FakeMx> {
	const {host = '127.0.0.1', port = 0} = options;
	const connections: FakeConnection[] = [];
	const received: Received[] = [];
	const sockets = new Set<Socket>();
	const open = new Set<Socket>();
	const used = new Map<Step, number>();
	let count = 0;
	let most = 0;

	const server: Server = createServer({noDelay: true}, socket => {
		sockets.add(socket);
		open.add(socket);
		most = Math.max(most, open.size);
		socket.on('close', () => {
			sockets.delete(socket);
			open.delete(socket);
		});
		serve(socket);
	});
	server.listen(port, host);
	await once(server, 'listening');

	function scripted(step: Step, line: string, connection: FakeConnection): Answer {
		const script = options[step];
		if (typeof script === 'function') {
			return script(line, connection) ?? defaults[step];
		}

		if (Array.isArray(script)) {
			const n = used.get(step) ?? 0;
			used.set(step, n + 1);
			return (script as readonly Answer[])[n] ?? defaults[step];
		}

		return (script as Answer | undefined) ?? defaults[step];
	}

	function serve(plain: Socket): void {
		let socket = plain;
		let rest: Buffer = Buffer.alloc(0);
		let mode: 'command' | 'credentials' | 'data' | 'silent' = 'command';
		let from: string | null = null;
		let to: string[] = [];
		let body: Buffer[] = [];
		const connection: FakeConnection = {
			commands: [],
			tls: false,
			serverName: null,
			remoteAddress: plain.remoteAddress,
			say: text => void socket.write(text),
			drop() {
				// Not with its 'close': Node accepts the peer's next connection before it says that this one is closed.
				open.delete(plain);
				socket.destroy();
			},
		};
		connections.push(connection);

		/** Answers; true: the reply begins with the code. */
		function answer(step: Step, line: string, code?: number, standard?: string): boolean {
			let said = scripted(step, line, connection);
			if (said === '') {
				said = standard ?? '';
			}

			if (typeof said === 'object') {
				if ('bytes' in said) {
					socket.write(said.bytes);
				} else if (said.do === 'drop') {
					socket.end();
					mode = 'silent';
				} else if (said.do === 'reset') {
					plain.resetAndDestroy();
					mode = 'silent';
				} else {
					mode = 'silent';
					if (said.do === 'freeze') {
						plain.pause();
					}
				}

				return 'do' in said && said.do === 'take';
			}

			if (said !== '') {
				socket.write(wire(said));
			}

			return code !== undefined && said.startsWith(String(code));
		}

		function extensionsNow(): string {
			const starttls = options.tls !== undefined || options.brokenTls !== undefined ? ['STARTTLS'] : [];
			const offered = options.extensions ?? [
				'PIPELINING',
				'8BITMIME',
				'SIZE 52428800',
				'ENHANCEDSTATUSCODES',
				...starttls,
			];
			const now = connection.tls ? offered.filter(keyword => keyword !== 'STARTTLS') : offered;
			return `250 ${['fake.test', ...now].join('\n')}`;
		}

		function startTls(): void {
			plain.removeAllListeners('data');
			if (options.brokenTls !== undefined) {
				mode = 'silent';
				if (options.brokenTls === 'drop') {
					plain.once('data', () => plain.destroy());
				} else if (options.brokenTls === 'garbage') {
					plain.once('data', () => plain.write('this is no handshake\r\n'));
				} else {
					plain.resume();
				}

				return;
			}

			const longest = options.maxHelloLength;
			if (longest === undefined) {
				handshake();
				return;
			}

			plain.once('data', hello => {
				plain.pause();
				if (hello.length > longest) {
					plain.destroy();
				} else {
					plain.unshift(hello);
					handshake();
				}
			});
		}

		function handshake(): void {
			const secure = new TLSSocket(plain, {
				isServer: true,
				secureContext: createSecureContext(options.tls),
				...(options.wantsCertificate === true ? {requestCert: true, rejectUnauthorized: true} : {}),
				SNICallback(name, done) {
					connection.serverName = name;
					done(null);
				},
			});
			secure.on('error', () => plain.destroy());
			secure.on('secure', () => {
				connection.tls = true;
			});
			socket = secure;
			rest = Buffer.alloc(0);
			secure.on('data', take);
		}

		function command(line: string): void {
			connection.commands.push(line);
			if (mode === 'credentials') {
				mode = answer('credentials', line, 334) ? 'credentials' : 'command';
				return;
			}

			const verb = line.slice(0, 4).toUpperCase();
			switch (verb) {
				case 'EHLO':
					answer('ehlo', line, 250, extensionsNow());
					return;
				case 'HELO':
					answer('helo', line);
					return;
				case 'STAR':
					if (answer('starttls', line, 220)) {
						startTls();
					}

					return;
				case 'AUTH':
					if (answer('auth', line, 334)) {
						mode = 'credentials';
					}

					return;
				case 'MAIL':
					to = [];
					from = answer('mail', line, 250) ? (/<([^>]*)>/.exec(line)?.[1] ?? '') : null;
					return;
				case 'RCPT':
					if (answer('rcpt', line, 25)) {
						to.push(/<([^>]*)>/.exec(line)?.[1] ?? '');
					}

					return;
				case 'DATA':
					// RFC 2920 §3.1: without a recipient DATA is refused.
					if (options.data === undefined && to.length === 0) {
						socket.write('554 5.5.1 Error: no valid recipients\r\n');
					} else if (answer('data', line, 354)) {
						mode = 'data';
						body = [];
					}

					return;
				case 'RSET':
					from = null;
					to = [];
					answer('rset', line);
					return;
				case 'QUIT':
					answer('quit', line);
					open.delete(plain);
					socket.end();
					return;
				default:
					answer('other', line);
			}
		}

		/** Takes body bytes up to the end of the data; what follows it is the rest. */
		function takeBody(chunk: Buffer): Buffer {
			if (body.length === 0) {
				answer('body', '');
				if (mode === 'silent') {
					return Buffer.alloc(0);
				}
			}

			// The line end before the first line belongs to DATA; four octets of an end may lie in what came before.
			const before = body.length === 0 ? Buffer.from('\r\n') : (body.pop() as Buffer);
			const joined = before.length < 2048 ? Buffer.concat([before, chunk]) : joinTail(before, chunk);
			const end = endOf(joined, options.lax === true);
			if (end === null) {
				body.push(joined);
				return Buffer.alloc(0);
			}

			const whole =
				body.length === 0
					? joined.subarray(2, end.at)
					: Buffer.concat([...body, joined.subarray(0, end.at)]).subarray(2);
			mode = 'command';
			body = [];
			const accepted = answer('dot', '.', 250);
			if (accepted) {
				count += 1;
				if (options.countOnly !== true) {
					received.push({from: from ?? '', to, data: unstuffed(whole), connection});
				}
			}

			from = null;
			to = [];
			return joined.subarray(end.after);
		}

		/** Keeps only a tail to search in, so that a large body costs no more than its length. */
		function joinTail(before: Buffer, chunk: Buffer): Buffer {
			body.push(before.subarray(0, -8));
			return Buffer.concat([before.subarray(-8), chunk]);
		}

		function take(chunk: Buffer): void {
			rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
			while (rest.length > 0 && mode !== 'silent') {
				if (mode === 'data') {
					rest = takeBody(rest);
					continue;
				}

				const end = rest.indexOf('\r\n');
				if (end === -1) {
					return;
				}

				const line = rest.toString('utf8', 0, end);
				rest = rest.subarray(end + 2);
				command(line);
			}
		}

		plain.on('error', () => plain.destroy());
		if (options.implicitTls === true) {
			startTls();
		} else {
			plain.on('data', take);
		}

		answer('greeting', '');
	}

	async function close(): Promise<void> {
		for (const socket of sockets) {
			socket.destroy();
		}

		server.close();
		await once(server, 'close');
	}

	t?.teardown(close);
	return {
		host,
		port: (server.address() as AddressInfo).port,
		connections,
		received,
		count: () => count,
		open: () => open.size,
		maxOpen: () => most,
		close,
	};
}

/** A reply with all its lines; the code is said in the first one. */
function wire(reply: string): string {
	const [first = '', ...more] = reply.split('\n');
	const code = first.slice(0, 3);
	const texts = [first.slice(4), ...more];
	return texts.map((text, n) => `${code}${n < texts.length - 1 ? '-' : ' '}${text}\r\n`).join('');
}

function endOf(bytes: Buffer, lax: boolean): {at: number; after: number} | null {
	if (lax) {
		const found = /[\r\n]\.(\r\n|\n|\r)/.exec(bytes.toString('latin1'));
		return found === null ? null : {at: found.index + 1, after: found.index + found[0].length};
	}

	const at = bytes.indexOf(strictEnd);
	return at === -1 ? null : {at: at + 2, after: at + strictEnd.length};
}

function unstuffed(bytes: Buffer): Buffer {
	const text = bytes.toString('latin1').replace(/(^|\r\n)\./g, '$1');
	return Buffer.from(text, 'latin1');
}
