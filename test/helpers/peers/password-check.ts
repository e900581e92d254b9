import {chmod} from 'node:fs/promises';
import {createServer, type Socket} from 'node:net';
import {createInterface} from 'node:readline';
import type {ExecutionContext} from 'ava';

export type Account = {readonly user: string; readonly password: string};

const encode = (text: string) => Buffer.from(text).toString('base64');
const decode = (text: string) => Buffer.from(text, 'base64').toString();

/**
 * Answers password questions of a mail server in the authentication protocol of Dovecot (version 1.1) on a Unix
 * socket: PLAIN (RFC 4616) and LOGIN, one account.
 */
export async function startPasswordCheck(t: ExecutionContext, path: string, account: Account): Promise<void> {
	const sockets = new Set<Socket>();
	const server = createServer(socket => {
		sockets.add(socket.once('close', () => sockets.delete(socket)));
		// The client may go at any time; what it then did not get needs no word.
		socket.on('error', () => socket.destroy());
		socket.write(
			'VERSION\t1\t1\nMECH\tPLAIN\tplaintext\nMECH\tLOGIN\tplaintext\nSPID\t1\nCUID\t1\nCOOKIE\t00000000000000000000000000000000\nDONE\n',
		);
		converse(socket, account);
	});
	await new Promise<void>(resolve => server.listen(path, resolve));
	// The mail server asks as its own user.
	await chmod(path, 0o666);
	t.teardown(() => {
		server.close();
		for (const socket of sockets) {
			socket.destroy();
		}
	});
}

type Exchange = {readonly mechanism: string; readonly responses: string[]};

function converse(socket: Socket, account: Account): void {
	const exchanges = new Map<string, Exchange>();
	createInterface({input: socket}).on('line', line => {
		const [command, id = '', ...fields] = line.split('\t');
		const exchange =
			command === 'AUTH' ? {mechanism: fields[0] ?? '', responses: []} : command === 'CONT' && exchanges.get(id);
		if (!exchange) {
			return;
		}

		exchanges.set(id, exchange);
		const response = command === 'AUTH' ? fields.find(field => field.startsWith('resp='))?.slice(5) : fields[0];
		if (response !== undefined) {
			exchange.responses.push(decode(response));
		}

		const next = answer(exchange, account);
		if (!next.startsWith('CONT')) {
			exchanges.delete(id);
		}

		socket.write(next.replace('ID', id));
	});
}

function answer({mechanism, responses}: Exchange, account: Account): string {
	const credentials = mechanism === 'PLAIN' ? responses[0]?.split('\0').slice(1) : responses;
	if (mechanism === 'PLAIN' && !credentials) {
		return 'CONT\tID\t\n';
	}

	if (mechanism === 'LOGIN' && responses.length < 2) {
		return `CONT\tID\t${encode(responses.length === 0 ? 'Username:' : 'Password:')}\n`;
	}

	const right = credentials?.[0] === account.user && credentials[1] === account.password;
	return right ? `OK\tID\tuser=${account.user}\n` : `FAIL\tID\tuser=${account.user}\n`;
}
