import {once} from 'node:events';
import {chown, mkdir} from 'node:fs/promises';
import {connect} from 'node:net';
import {join} from 'node:path';
import type {ExecutionContext} from 'ava';
import {freePort} from '../free-port.ts';
import {findPeer, idOf, instanceFolder, peerLog, startInside, untilUp} from './chroot.ts';

export type Postgrey = {
	/** On 127.0.0.1: a policy service for Postfix. */
	readonly port: number;
	readonly log: () => Promise<string>;
};

/**
 * Starts a private postgrey that lets mail through when it comes again after so many seconds, and waits until it
 * listens. It ends with the test. Null where it cannot run.
 */
export async function startPostgrey(t: ExecutionContext, delaySeconds: number): Promise<Postgrey | null> {
	const root = await findPeer(t, 'postgrey');
	if (!root) {
		return null;
	}

	const {outside, inside} = await instanceFolder(t, root);
	const port = await freePort();
	const log = peerLog(t, 'postgrey', join(outside, 'postgrey.log'));
	const postgrey = idOf(root, 'postgrey');
	await mkdir(join(outside, 'db'));
	await chown(join(outside, 'db'), postgrey, postgrey);
	const args = [`--inet=127.0.0.1:${port}`, `--delay=${delaySeconds}`, `--dbdir=${inside}/db`, '--verbose'];
	args.push('--auto-whitelist-clients=0', '--user=postgrey', '--group=postgrey', '--lookup-by-host');
	args.push('--whitelist-clients=/dev/null', '--whitelist-recipients=/dev/null');
	const daemon = startInside(t, root, '/usr/sbin/postgrey', args, join(outside, 'postgrey.log'));
	await untilUp('postgrey', daemon, () => listens(port), log);
	return {port, log};
}

async function listens(port: number): Promise<boolean> {
	const socket = connect(port, '127.0.0.1');
	try {
		await once(socket, 'connect');
		return true;
	} catch {
		return false;
	} finally {
		socket.destroy();
	}
}
