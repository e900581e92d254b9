import process from 'node:process';
import {createServer} from 'node:tls';

// A process with many webhook endpoints, as cheap as can be: `/healthy/…` answers at once, `/slow/…` late.

type Start = {readonly key: string; readonly cert: string; readonly slowMs: number};
export type ToReceivers = Start | 'count' | 'tell';
/** What came: for each path the message ids with the time of arrival (milliseconds since the epoch). */
export type Arrivals = Readonly<Record<string, ReadonlyArray<readonly [messageId: string, at: number]>>>;
/** How many came, by path. */
export type Counts = Readonly<Record<string, number>>;
export type FromReceivers = {readonly port: number} | {readonly counts: Counts} | {readonly arrivals: Arrivals};

const answer = Buffer.from('HTTP/1.1 204 No Content\r\n\r\n');
const arrivals: Record<string, Array<[messageId: string, at: number]>> = {};

/** Reads requests as our own client writes them: one after the other, with a content-length. */
function serve({key, cert, slowMs}: Start): void {
	const server = createServer({key, cert}, socket => {
		let rest = '';
		socket.setNoDelay(true);
		socket.on('error', () => undefined);
		socket.on('data', chunk => {
			rest += chunk.toString('latin1');
			const end = rest.indexOf('\r\n\r\n');
			const length = Number(/content-length: (\d+)/i.exec(rest)?.[1] ?? 0);
			if (end === -1 || rest.length < end + 4 + length) {
				return;
			}
			const [, path = ''] = rest.split(' ', 2);
			const [, messageId = ''] = /"message_id":"(\w+)"/.exec(rest) ?? [];
			arrivals[path] ??= [];
			arrivals[path].push([messageId, Date.now()]);
			rest = '';
			if (path.startsWith('/slow')) {
				setTimeout(() => socket.write(answer), slowMs);
			} else {
				socket.write(answer);
			}
		});
	});
	server.listen(0, '127.0.0.1', () => tell({port: (server.address() as {port: number}).port}));
}

function tell(message: FromReceivers): void {
	process.send?.(message);
}

process.on('message', (message: ToReceivers) => {
	if (message === 'tell') {
		tell({arrivals});
	} else if (message === 'count') {
		tell({counts: Object.fromEntries(Object.entries(arrivals).map(([path, came]) => [path, came.length]))});
	} else {
		serve(message);
	}
});
process.on('disconnect', () => process.exit());
