import {execFileSync, spawn} from 'node:child_process';
import {once} from 'node:events';
import {copyFileSync, existsSync, mkdirSync, readdirSync} from 'node:fs';
import {join, resolve} from 'node:path';
import process from 'node:process';
import test from 'ava';
import {type Program, prepareProgram} from '../helpers/daemon.ts';
import {clientOf, startMailHosts} from '../helpers/mail-hosts.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

/** The same program with a data folder of its own. */
async function elsewhere(t: Parameters<typeof prepareProgram>[0], {environment}: Program): Promise<Program> {
	const {MAILCTL_DATA_DIR: _, ...settings} = environment.env;
	return await prepareProgram(t, settings as Record<string, string>);
}

test.serial('a backup beside a sending daemon, restored elsewhere, is complete and sends nothing twice', async t => {
	const {program, host} = await startMailHosts(
		t,
		{
			'mx.good.example': {},
			'mx.busy.example': {rcpt: ['452 4.2.2 mailbox full']},
			'mx.slow.example': {greeting: [{do: 'never'}]},
		},
		{},
		// What is deferred waits for the second daemon.
		{MAILCTL_RETRY_SCHEDULE: '1h*'},
	);
	const [good, busy, slow] = ['good', 'busy', 'slow'].map(name => host(`mx.${name}.example`));
	const first = await program.serve();
	const client = await clientOf(program, first);
	const delivered: string[] = [];
	for (let n = 0; n < 20; n++) {
		delivered.push(await client.send(`early${n}@good.example`));
	}
	await client.until(delivered, 'delivered');
	const deferred = await client.send('user@busy.example');
	await client.tried(deferred);
	const inFlight = await client.send('user@slow.example');
	await waitFor('a session that hangs', () => slow?.open() === 1);
	await program.cli('suppression', 'add', 'never@good.example', '--workspace', 'default');

	let isOver = false;
	const during: string[] = [];
	const sending = (async () => {
		while (!isOver) {
			during.push(await client.send(`during${during.length}@good.example`));
		}
	})();
	await waitFor('mail is accepted', () => during.length > 5);
	const before = [...during];
	const file = join(program.folder, 'backup.tar');
	await program.cli('backup', file);
	isOver = true;
	await sending;
	await waitFor('all of it is delivered', () => good?.count() === 20 + during.length);
	t.true(during.length > before.length, 'mail was accepted meanwhile');
	await first.kill();

	const second = await elsewhere(t, program);
	const restored = await second.cli<{waiting: number; replaced: boolean}>('restore', file);
	t.like(restored, {replaced: false, held: 0});
	t.true(restored.waiting >= 2);
	copyFileSync(join(program.folder, 'data/first-keys.txt'), join(second.folder, 'data/first-keys.txt'));
	const daemon = await second.serve();
	const again = await clientOf(second, daemon);
	await again.until(inFlight, 'delivered');
	await second.cli('queue', 'flush', deferred);
	await again.until(deferred, 'delivered');
	await again.until([...delivered, ...before], 'delivered');
	const {from, templateId, key} = client.shop;
	const refused = await call(`${daemon.url}/v1/messages`, key, {from, to: 'never@good.example', templateId});
	t.like(refused.body as object, {error: {code: 'recipient_suppressed'}});
	t.is(await daemon.stop(), 0);

	const timesOf = (to: string) => (good?.received ?? []).filter(mail => mail.to.includes(to)).length;
	t.deepEqual(
		delivered.map((_, n) => timesOf(`early${n}@good.example`)),
		delivered.map(() => 1),
		'what was delivered before is not sent again',
	);
	t.deepEqual([busy?.count(), slow?.count()], [1, 1], 'what waited is sent once');
	const twice = during.filter((_, n) => timesOf(`during${n}@good.example`) > 1).length;
	t.log(`${during.length} accepted meanwhile, ${twice} delivered after the backup's time and again`);
	t.true(during.every((_, n) => timesOf(`during${n}@good.example`) <= 2));
});

const maxKills = 60;

test.serial('kill -9 at any moment of a restore leaves either the old store or the new one', async t => {
	const program = await prepareProgram(t, {});
	const data = join(program.folder, 'data');
	const files: string[] = [];
	for (const name of ['former', 'next']) {
		await program.cli('workspace', 'create', '--name', name);
		files.push(join(program.folder, `${name}.tar`));
		await program.cli('backup', files.at(-1) ?? '');
	}
	const [former = '', next = ''] = files;
	const restore = () =>
		spawn(process.execPath, [resolve('bin/mailctl.js'), 'restore', next, '--yes'], {
			...program.environment,
			stdio: 'ignore',
		});
	const stateOf = async () =>
		(await program.cli<Array<{name: string}>>('workspace', 'list')).map(({name}) => name).toSorted();
	const left: string[] = [];
	const signs = [
		'restore.partial',
		'restore.partial/mailctl.db',
		'restore.partial/daemon.lock',
		'restore.ready',
	] as const;
	// On a busy machine a command may end before it is killed. It goes on until one died half-way.
	for (let n = 0; n < signs.length || (n < maxKills && !left.includes('restore.partial')); n++) {
		const sign = signs[n % signs.length] ?? signs[0];
		await program.cli('restore', former, '--yes');
		t.deepEqual(await stateOf(), ['former']);
		const child = restore();
		const ended = once(child, 'exit');
		await waitFor(sign, () => existsSync(join(data, sign)) || child.exitCode !== null);
		child.kill('SIGKILL');
		await ended;
		left.push(readdirSync(data).find(name => name.startsWith('restore')) ?? 'nothing');
		const state = await stateOf();
		t.true(['former', 'former,next'].includes(state.join()), state.join());
	}
	t.true(left.includes('restore.partial'), 'it died before its end');
	t.log(`left behind: ${left.join(', ')}`);
	const daemon = await program.serve();
	t.is(await daemon.stop(), 0);
	await program.cli('restore', former, '--yes');
	t.false(existsSync(join(data, 'restore.partial')));
});

test.serial('refuses a restore beside a daemon; the next daemon or command completes an interrupted one', async t => {
	const program = await prepareProgram(t, {});
	const data = join(program.folder, 'data');
	await program.cli('workspace', 'create', '--name', 'former');
	const file = join(program.folder, 'backup.tar');
	await program.cli('backup', file);
	await program.cli('workspace', 'create', '--name', 'later');
	const first = await program.serve();
	const {code, stderr} = await program.run('restore', file, '--yes');
	t.is(code, 75);
	t.regex(stderr, /^mailctl: another daemon is running .*: stop it first or set MAILCTL_DATA_DIR\n$/);
	t.is((await program.cli<unknown[]>('workspace', 'list')).length, 2);

	for (const starts of [false, true]) {
		if (starts) {
			await program.cli('workspace', 'create', '--name', 'later');
		} else {
			await first.kill();
		}
		mkdirSync(join(data, 'restore.ready'), {mode: 0o700});
		execFileSync('tar', ['xf', file, '-C', join(data, 'restore.ready')]);
		const daemon = starts ? await program.serve() : null;
		const names = (await program.cli<Array<{name: string}>>('workspace', 'list')).map(({name}) => name);
		t.deepEqual(names, ['former']);
		t.false(existsSync(join(data, 'restore.ready')));
		await daemon?.stop();
	}
});
