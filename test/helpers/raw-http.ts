import {connect} from 'node:net';

/** Sends bytes as they are and resolves with all that came back until the server closed the connection. */
export async function rawHttp(port: number, text: string | Uint8Array): Promise<string> {
	const socket = connect(port, '127.0.0.1');
	let answer = '';
	socket.on('data', chunk => {
		answer += chunk.toString('latin1');
	});
	socket.on('error', () => undefined);
	const closed = new Promise<void>(resolve => socket.once('close', () => resolve()));
	socket.write(text);
	await closed;
	return answer;
}
