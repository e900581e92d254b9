import {once} from 'node:events';
import {type AddressInfo, createServer, type Socket} from 'node:net';
import {createInterface} from 'node:readline';
import type {ExecutionContext} from 'ava';
import type {ImapMailbox} from '../../src/inbound/mailboxes.ts';

/** Where the server falls silent. The connection stays open. */
export type SilentAt = 'login' | 'idle' | 'done' | null;

/**
 * A message of the mailbox by its UID, or what the server does instead of handing it out: `NO` and `BAD` refuse the
 * whole command, `close` ends the connection, `nil` sends `BODY[] NIL`, `omit` leaves the message out.
 */
export type Letter = {readonly text: string} | 'NO' | 'BAD' | 'close' | 'nil' | 'omit';

type State = {silentAt: SilentAt; readonly letters: Map<number, Letter>};

/**
 * A server for IMAP without TLS, at first with an empty mailbox. What is in it and where the server falls silent may
 * change while it runs.
 */
export async function startSilentImap(
	t: Pick<ExecutionContext, 'teardown'>,
	silentAt: SilentAt,
): Promise<State & {readonly mailbox: ImapMailbox}> {
	const state: State = {silentAt, letters: new Map()};
	const server = createServer(socket => {
		let idle: string | null = null;
		const say = (...lines: string[]) => socket.write(lines.map(line => `${line}\r\n`).join(''));
		socket.on('error', () => undefined);
		t.teardown(() => void socket.destroy());
		say('* OK [CAPABILITY IMAP4rev1 IDLE] ready');
		createInterface({input: socket}).on('line', line => {
			const [tag = '', command = '', verb = '', set = ''] = line.split(' ');
			if (line === 'DONE') {
				if (state.silentAt !== 'done') {
					say(`${idle} OK done`);
				}
				return;
			}
			switch (command.toUpperCase()) {
				case 'CAPABILITY':
					return say('* CAPABILITY IMAP4rev1 IDLE', `${tag} OK`);
				case 'LOGIN':
					return state.silentAt === 'login' ? undefined : say(`${tag} OK logged in`);
				case 'SELECT':
				case 'EXAMINE':
					return say(
						`* ${state.letters.size} EXISTS`,
						'* OK [UIDVALIDITY 7] valid',
						'* FLAGS ()',
						`${tag} OK [READ-ONLY] open`,
					);
				case 'UID':
					return verb.toUpperCase() === 'FETCH'
						? hand(state, socket, tag, set)
						: say(['* SEARCH', ...state.letters.keys()].join(' '), `${tag} OK searched`);
				case 'LIST':
				case 'LSUB':
					return say('* LIST () "/" INBOX', `${tag} OK`);
				case 'IDLE':
					idle = tag;
					return state.silentAt === 'idle' ? undefined : say('+ idling');
				default:
					return say(`${tag} OK`);
			}
		});
	});
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	t.teardown(() => server.close());
	const {port} = server.address() as AddressInfo;
	return Object.assign(state, {
		mailbox: {
			kind: 'imap',
			host: '127.0.0.1',
			port,
			tls: 'none',
			user: 'a',
			password: 'secret',
			folder: 'INBOX',
		} as const,
	});
}

function hand({letters}: State, socket: Socket, tag: string, set: string): void {
	for (const uid of set.split(',').map(Number)) {
		const letter = letters.get(uid) ?? 'omit';
		switch (letter) {
			case 'NO':
			case 'BAD':
				socket.write(`${tag} ${letter} [SERVERBUG] message ${uid} is corrupt\r\n`);
				return;
			case 'close':
				socket.destroySoon();
				return;
			case 'omit':
				break;
			case 'nil':
				socket.write(`* ${uid} FETCH (UID ${uid} RFC822.SIZE 0 BODY[]<0> NIL)\r\n`);
				break;
			default: {
				const {length} = letter.text;
				socket.write(
					`* ${uid} FETCH (UID ${uid} RFC822.SIZE ${length} BODY[]<0> {${length}}\r\n${letter.text})\r\n`,
				);
			}
		}
	}
	socket.write(`${tag} OK fetched\r\n`);
}
