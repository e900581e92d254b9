import {mkdirSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import test from 'ava';
import {eventsOf, logged, prepareProgram, type Welcome, welcomeOf} from '../helpers/daemon.ts';
import {deliveringTo, domains} from '../helpers/delivering-to.ts';
import {lastWish} from '../helpers/dying-writer.ts';
import {oncePerFile} from '../helpers/once-per-file.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

/** Many times the second that it should take. */
const effectLimit = 20_000;

async function send(
	url: string,
	{key, from, templateId}: Welcome,
	to: string,
): Promise<{status: number; body: unknown}> {
	return await call(`${url}/v1/messages`, key, {from, to, templateId});
}

test.serial('SIGTERM under load, with or without a drain delay, exits with 0 and delivers every 202 once', async t => {
	const {program, mx} = await deliveringTo(t, {});
	const daemon = await program.serve();
	const shop = await welcomeOf(program);
	const accepted: string[] = [];
	let loading = true;
	const load = Promise.all(
		Array.from({length: 16}, async (_, queue) => {
			for (let n = 0; loading; n++) {
				const to = `user-${queue}-${n}@${domains[n % domains.length]}`;
				const answer = await send(daemon.url, shop, to).catch(() => null); // The daemon is gone.
				if (answer?.status === 202) {
					accepted.push(to);
				} else {
					t.true(answer === null || answer.status === 503, JSON.stringify(answer));
					loading = false;
				}
			}
		}),
	);
	await waitFor('mail flows', () => mx.count() >= 100);
	const began = performance.now();
	t.is(await daemon.stop(), 0);
	const stopMs = performance.now() - began;
	await load;
	t.like((await eventsOf(program, 'stopped')).at(-1), {drained: true});

	const next = await program.serve({MAILCTL_DRAIN_DELAY: '100ms'});
	await waitFor('the rest has arrived', () => {
		const there = new Set(mx.received.map(({to: [to]}) => String(to)));
		return accepted.every(to => there.has(to));
	});
	t.is(await next.stop(), 0);
	t.like((await eventsOf(program, 'stopped')).at(-1), {drained: true});
	t.log(`${accepted.length} accepted, ${mx.count()} arrived, stopped in ${Math.round(stopMs)} ms`);
	const arrived = mx.received.map(({to: [to]}) => String(to)).sort();
	// One more may have been taken in whose 202 was cut off; none may come twice.
	t.is(new Set(arrived).size, arrived.length);
	t.deepEqual(
		accepted.filter(to => !arrived.includes(to)),
		[],
	);
});

test.serial(
	'a crashed writer thread stops the daemon; every 202 is delivered, at the latest after a restart',
	async t => {
		const {program, mx} = await deliveringTo(t, {});
		const daemon = await program.serve({
			NODE_OPTIONS: `--import ${new URL('../helpers/dying-writer.js', import.meta.url)}`,
		});
		const shop = await welcomeOf(program);
		const accepted: string[] = [];
		const load = Promise.all(
			Array.from({length: 8}, async (_, queue) => {
				for (let n = 0; ; n++) {
					const to = `user-${queue}-${n}@${domains[n % domains.length]}`;
					const answer = await send(daemon.url, shop, to).catch(() => null); // The daemon is gone.
					if (answer?.status !== 202) {
						return;
					}
					accepted.push(to);
				}
			}),
		);
		await waitFor('mail flows', () => mx.count() >= 50);
		writeFileSync(join(program.folder, 'data', lastWish), '');
		t.is(await daemon.ended, 1);
		await load;
		t.regex(await program.log(), /Error: the thread that writes was told to die/);

		const next = await program.serve();
		const arrived = () => new Set(mx.received.map(({to: [to]}) => String(to)));
		await waitFor('each has arrived', () => accepted.every(to => arrived().has(to)));
		t.is(await next.stop(), 0);
	},
);

test.serial('a stopping daemon is unready but serves for MAILCTL_DRAIN_DELAY or until a second signal', async t => {
	let hanging = 0;
	const {program, mx} = await deliveringTo(t, {
		dot(_line, {commands}) {
			if (commands.some(command => command.includes('late@'))) {
				return undefined;
			}
			hanging++;
			return {do: 'never'};
		},
	});
	const daemon = await program.serve({MAILCTL_DRAIN_DELAY: '60s'});
	const shop = await welcomeOf(program);
	const readiness = async () => (await fetch(`${daemon.url}/readyz`)).status;
	t.is(await readiness(), 200);
	t.is((await send(daemon.url, shop, 'first@a.example')).status, 202);
	await waitFor('a session waits for the answer', () => hanging === 1);
	daemon.signal('SIGTERM');
	await waitFor('it says that it is not ready', async () => (await readiness()) === 503);
	t.is((await send(daemon.url, shop, 'late@b.example')).status, 202);
	await waitFor('what it accepts now is delivered', () => mx.count() === 1);
	daemon.signal('SIGTERM');
	t.is(await daemon.ended, 0);
	t.like((await eventsOf(program, 'stopped')).at(-1), {drained: false});
	await waitFor('the session is closed', () => mx.open() === 0);

	// Without a second signal, the drain limit ends a session that hangs.
	const limited = await program.serve({MAILCTL_DRAIN_LIMIT: '300ms'});
	const before = hanging;
	t.is((await send(limited.url, shop, 'second@a.example')).status, 202);
	await waitFor('a session waits for the answer', () => hanging > before);
	t.is(await limited.stop(), 0);
	t.like((await eventsOf(program, 'stopped')).at(-1), {drained: false});
	await waitFor('the session is closed', () => mx.open() === 0);
});

/** The daemon that the last tests share. */
const running = oncePerFile(test, async scope => {
	const program = await prepareProgram(scope, {});
	const daemon = await program.serve();
	return {program, daemon, shop: await welcomeOf(program)};
});

test.serial('changes by the CLI take effect in the running daemon', async t => {
	const {program, daemon, shop} = running();
	const {id: keyId, key} = await program.cli<{id: string; key: string}>('key', 'create', '--name', 'other');
	const status = async (secret: string) => (await send(daemon.url, {...shop, key: secret}, 'you@a.example')).status;
	t.is(await status(key), 202, 'a new key is known');

	await program.cli('key', 'revoke', keyId);
	await waitFor('the key is refused', async () => (await status(key)) === 401, effectLimit);

	await program.cli('workspace', 'pause', 'default', '--reason', 'test');
	await waitFor('sending is refused', async () => (await status(shop.key)) === 403, effectLimit);
	await program.cli('workspace', 'resume', 'default');
	await waitFor('sending is on', async () => (await status(shop.key)) === 202, effectLimit);

	const folder = join(program.folder, 'templates/sample');
	mkdirSync(folder, {recursive: true});
	writeFileSync(join(folder, 'template.json'), '{"subject":"Another subject"}');
	writeFileSync(join(folder, 'body.html'), '<p>Hello</p>');
	t.like(await program.cli('template', 'push', 'templates'), [{id: shop.templateId, version: 2}]);
	const subjectNow = async () => {
		const {body} = await send(daemon.url, shop, 'subject@a.example');
		return await waitFor('a subject', async () => {
			const read = await call(`${daemon.url}/v1/messages/${(body as {id: string}).id}`, shop.key);
			return (read.body as {subject: string | null}).subject;
		});
	};
	await waitFor('the new version is sent', async () => (await subjectNow()) === 'Another subject', effectLimit);
});

test.serial(
	'SIGHUP, even three thousand times, reloads settings; an invalid file is named and changes nothing',
	async t => {
		const {program, daemon, shop} = running();
		const env = (text: string) => writeFileSync(join(program.folder, '.env'), text, {mode: 0o600});
		const rateLimit = async () => {
			const headers = {authorization: `Bearer ${shop.key}`};
			return (await fetch(`${daemon.url}/v1/usage`, {headers})).headers.get('ratelimit-limit');
		};
		t.is(await rateLimit(), '6000');
		for (let n = 0; n < 3000; n++) {
			daemon.signal('SIGHUP');
			await new Promise(setImmediate);
		}
		t.is((await fetch(`${daemon.url}/healthz`, {signal: AbortSignal.timeout(180_000)})).status, 200);

		env('MAILCTL_RETRY_SCHEDULE=2m\nMAILCTL_MAX_SESSIONS=3\nMAILCTL_RATE_LIMIT=1/86400\n');
		daemon.signal('SIGHUP');
		const reloaded = await waitFor('the settings are read', async () =>
			(await eventsOf(program, 'reloaded')).find(({changed}) => String(changed) !== ''),
		);
		t.like(reloaded, {
			changed: ['MAILCTL_RATE_LIMIT', 'MAILCTL_RETRY_SCHEDULE'],
			needs_restart: ['MAILCTL_MAX_SESSIONS'],
		});
		t.true((await eventsOf(program, 'reloaded')).length < 500);
		t.is(await rateLimit(), '1');
		t.is((await send(daemon.url, shop, 'one@a.example')).status, 202);
		t.is((await send(daemon.url, shop, 'two@a.example')).status, 429);

		env('MAILCTL_LOG_LEVEL=loud\nMAILCTL_RETRY_SCHEDULE=never\n');
		daemon.signal('SIGHUP');
		const [{problems} = {}] = await logged(program, 'reload_refused');
		t.is((problems as string[]).length, 2);
		t.regex(String(problems), /MAILCTL_LOG_LEVEL="loud".*MAILCTL_RETRY_SCHEDULE="never"/s);
		t.is((await fetch(`${daemon.url}/readyz`)).status, 200);

		env('MAILCTL_LOG_LEVEL=error\n');
		daemon.signal('SIGHUP');
		// At `error` nothing is said of a mail; the reload itself can no longer be seen.
		await waitFor('the limit is off again', async () => (await rateLimit()) === '6000');
		await waitFor('mail without a line', async () => {
			const lines = (await eventsOf(program, 'delivered')).length;
			// A line follows its mail's state: once the second mail is delivered, that of the first is there.
			for (let n = 0; n < 2; n++) {
				const {body} = await send(daemon.url, shop, 'you@a.example');
				await waitFor('it is delivered', async () => {
					const read = await call(`${daemon.url}/v1/messages/${(body as {id: string}).id}`, shop.key);
					return (read.body as {status: string}).status === 'delivered';
				});
			}
			return (await eventsOf(program, 'delivered')).length === lines;
		});
		t.is(await daemon.stop(), 0);
		t.deepEqual(await eventsOf(program, 'stopped'), []);
	},
);
