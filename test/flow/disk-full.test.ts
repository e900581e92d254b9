import {execFileSync} from 'node:child_process';
import {mkdirSync, rmSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {welcomeOf} from '../helpers/daemon.ts';
import {deliveringTo, domains} from '../helpers/delivering-to.ts';
import {notRunHere} from '../helpers/not-run-here.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

const diskSize = 16 * 1024 * 1024;

/** A small disk at the path; false where none can be mounted. */
function mountSmallDisk(t: ExecutionContext, folder: string): boolean {
	mkdirSync(folder, {mode: 0o700});
	try {
		execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${diskSize},mode=0700`, 'mailctl-test', folder], {stdio: 'pipe'});
	} catch (error) {
		notRunHere(t, `no small disk can be mounted: ${error}`);
		return false;
	}
	t.teardown(() => void execFileSync('umount', [folder]));
	return true;
}

function fill(file: string): void {
	for (const size of [1024 * 1024, 4096, 1]) {
		try {
			for (;;) {
				writeFileSync(file, Buffer.alloc(size), {flag: 'a'});
			}
		} catch {
			// Full for pieces of this size.
		}
	}
}

test('a full disk: 503 to sends and to /readyz, nothing is lost or sent twice, and it goes on when there is room', async t => {
	const {program, mx} = await deliveringTo(t, {});
	if (!mountSmallDisk(t, join(program.folder, 'data'))) {
		return;
	}
	const daemon = await program.serve();
	const {key, from, templateId} = await welcomeOf(program);
	const accepted: string[] = [];
	let sent = 0;
	const send = async (): Promise<number> => {
		const to = `user-${sent++}@${domains[sent % domains.length]}`;
		const {status} = await call(`${daemon.url}/v1/messages`, key, {from, to, templateId});
		if (status === 202) {
			accepted.push(to);
		}
		return status;
	};
	for (let n = 0; n < 50; n++) {
		t.is(await send(), 202);
	}

	const ballast = join(program.folder, 'data', 'ballast');
	fill(ballast);
	// What room the log has left is used up first.
	const refused = await waitFor('a send is refused', async () => {
		const status = await send();
		return status === 202 ? null : status;
	});
	t.is(refused, 503);
	t.is((await fetch(`${daemon.url}/readyz`)).status, 503);
	t.is((await fetch(`${daemon.url}/healthz`)).status, 200);
	for (let n = 0; n < 20; n++) {
		t.is(await send(), 503);
	}

	rmSync(ballast);
	await waitFor('it is ready again', async () => (await fetch(`${daemon.url}/readyz`)).ok);
	t.is(await send(), 202);
	await waitFor('all has arrived', () => mx.count() >= accepted.length);
	t.is(await daemon.stop(), 0);
	const arrived = mx.received.map(({to: [to]}) => String(to)).sort();
	t.deepEqual(arrived, accepted.toSorted());
	t.log(`${accepted.length} accepted, ${arrived.length} arrived`);
});
