import {once} from 'node:events';
import {type AddressInfo, createServer} from 'node:net';
import {createInterface} from 'node:readline';
import type {ExecutionContext} from 'ava';
import type {ImapMailbox} from '../../src/inbound/mailboxes.ts';

/** Where the server falls silent. The connection stays open. */
export type SilentAt = 'login' | 'idle' | 'done' | null;

/** A server for IMAP with an empty mailbox, without TLS. `silentAt` may change while it runs. */
export async function startSilentImap(
	t: Pick<ExecutionContext, 'teardown'>,
	silentAt: SilentAt,
): Promise<{readonly mailbox: ImapMailbox; silentAt: SilentAt}> {
	const state = {silentAt};
	const server = createServer(socket => {
		let idle: string | null = null;
		const say = (...lines: string[]) => socket.write(lines.map(line => `${line}\r\n`).join(''));
		socket.on('error', () => undefined);
		t.teardown(() => void socket.destroy());
		say('* OK [CAPABILITY IMAP4rev1 IDLE] ready');
		createInterface({input: socket}).on('line', line => {
			const [tag = '', command = ''] = line.split(' ');
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
					return say('* 0 EXISTS', '* OK [UIDVALIDITY 7] valid', '* FLAGS ()', `${tag} OK [READ-ONLY] open`);
				case 'UID':
					return say('* SEARCH', `${tag} OK searched`);
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
