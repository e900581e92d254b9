import {execFileSync} from 'node:child_process';
import {mkdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {logged, welcomeOf} from '../helpers/daemon.ts';
import {deliveringTo, domains} from '../helpers/delivering-to.ts';
import {notRunHere} from '../helpers/not-run-here.ts';
import {call} from '../helpers/shop.ts';
import {talkTo} from '../helpers/smtp-talk.ts';
import {waitFor} from '../helpers/wait.ts';

const diskSize = 16 * 1024 * 1024;

/** Mounts a small disk at the path; returns false where that is not possible. */
function mountSmallDisk(t: ExecutionContext, folder: string): boolean {
	mkdirSync(folder, {mode: 0o700});
	try {
		execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${diskSize},mode=0700`, 'mailctl-test', folder], {
			stdio: 'pipe',
		});
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

test('responds with 503 on a full disk, loses nothing, sends nothing twice, and resumes with free space', async t => {
	const {program, mx} = await deliveringTo(t, {}, {MAILCTL_MIN_FREE_DISK: '0'});
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
	// A small write may still find room for a while.
	await waitFor('it is not ready', async () => {
		await send();
		return (await fetch(`${daemon.url}/readyz`)).status === 503;
	});
	t.is((await fetch(`${daemon.url}/healthz`)).status, 200);
	for (let n = 0; n < 20; n++) {
		t.is(await send(), 503);
	}

	rmSync(ballast);
	await waitFor('it is ready again', async () => (await fetch(`${daemon.url}/readyz`)).ok);
	t.is(await send(), 202);
	await waitFor('all has arrived', () => mx.count() >= accepted.length);
	t.is(await daemon.stop(), 0);
	t.notRegex(await program.log(), /cannot rollback/);
	const arrived = mx.received.map(({to: [to]}) => String(to)).sort();
	t.deepEqual(arrived, accepted.toSorted());
	t.log(`${accepted.length} accepted, ${arrived.length} arrived`);
});

test('with little free space rejects new messages, continues everything else, and recovers by itself', async t => {
	const settings = {
		MAILCTL_MIN_FREE_DISK: '6MiB',
		MAILCTL_INBOUND_LISTEN: '127.0.0.1:0',
		MAILCTL_RETRY_SCHEDULE: '1s*',
	};
	let busy = true;
	const {program, mx} = await deliveringTo(t, {dot: () => (busy ? '451 4.3.0 Later' : undefined)}, settings);
	if (!mountSmallDisk(t, join(program.folder, 'data'))) {
		return;
	}
	const daemon = await program.serve();
	const {key, from, templateId} = await welcomeOf(program);
	const send = (to: string) => call(`${daemon.url}/v1/messages`, key, {from, to, templateId});
	const first = await send('first@a.example');
	t.is(first.status, 202);
	await logged(program, 'deferred');

	const ballast = join(program.folder, 'data', 'ballast');
	writeFileSync(ballast, Buffer.alloc(11 * 1024 * 1024));
	const unready = await waitFor('it is not ready', async () => {
		const answer = await fetch(`${daemon.url}/readyz`);
		return answer.status === 503 && (await answer.text());
	});
	t.regex(unready, /MAILCTL_MIN_FREE_DISK/);
	const refused = await fetch(`${daemon.url}/v1/messages`, {
		method: 'POST',
		headers: {authorization: `Bearer ${key}`, 'content-type': 'application/json'},
		body: JSON.stringify({from, to: 'second@a.example', templateId}),
	});
	t.is(refused.status, 503);
	t.truthy(refused.headers.get('retry-after'));
	t.like(await refused.json(), {error: {code: 'unavailable'}});
	t.is((await fetch(`${daemon.url}/healthz`)).status, 200);
	const {inbound} = JSON.parse(readFileSync(join(program.folder, 'data/daemon.json'), 'utf8'));
	const talk = await talkTo(t, Number(inbound.split(':').at(-1)));
	await talk.reply();
	await talk.say('EHLO peer.example');
	t.regex(await talk.say('MAIL FROM:<>'), /^452 4\.3\.1 /);
	// An outcome, and an opt-out, are written all the same.
	busy = false;
	await waitFor('the first mail is delivered', async () => {
		const {id} = first.body as {id: string};
		const {body} = await call(`${daemon.url}/v1/messages/${id}`, key);
		return (body as {status: string}).status === 'delivered';
	});
	await program.cli('suppression', 'add', 'third@a.example');

	rmSync(ballast);
	await waitFor('it is ready again', async () => (await fetch(`${daemon.url}/readyz`)).ok);
	t.is((await send('fourth@b.example')).status, 202);
	t.is((await logged(program, 'disk_low')).length, 1);
	t.is((await logged(program, 'disk_recovered')).length, 1);
	await waitFor('both have arrived', () => mx.count() === 2);
	t.is(await daemon.stop(), 0);
});
