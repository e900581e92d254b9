import {once} from 'node:events';
import type {AddressInfo} from 'node:net';
import {text} from 'node:stream/consumers';
import type {ExecutionContext} from 'ava';
import {SMTPServer} from 'smtp-server';

/** An SMTP server on 127.0.0.1 that takes everything and hands each mail to `received` before it answers 250. */
export async function startSink(
	t: ExecutionContext,
	received: (mail: string) => void,
): Promise<{port: number; sessions: () => number}> {
	const server = new SMTPServer({
		authOptional: true,
		disabledCommands: ['AUTH', 'STARTTLS'],
		disableReverseLookup: true,
		onData(stream, _session, done) {
			text(stream).then(mail => {
				received(mail);
				done();
			}, done);
		},
	});
	// A client that is killed in the middle of a session is what this sink is for.
	server.on('error', () => {});
	server.listen(0, '127.0.0.1');
	await once(server.server, 'listening');
	t.teardown(() => new Promise<void>(resolve => server.close(resolve)));
	return {port: (server.server.address() as AddressInfo).port, sessions: () => server.connections.size};
}
