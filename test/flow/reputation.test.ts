import test from 'ava';
import {logged, welcomeOf} from '../helpers/daemon.ts';
import {clientOf, startMailHosts} from '../helpers/mail-hosts.ts';
import {addShop} from '../helpers/second-shop.ts';
import {call, eachOf} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

type Window = {readonly attempted: number; readonly hard: number; readonly delivered: number};
type Shown = {
	readonly paused: boolean;
	readonly pause_reason: string | null;
	readonly reputation: {
		readonly state: string;
		readonly since: string | null;
		readonly windows: {readonly day: Window};
	};
};

const gone = (line: string) => (line.includes('<gone') ? '550 5.1.1 No such user' : undefined);
const numbered = (name: string, count: number) => Array.from({length: count}, (_, n) => `${name}${n}@a.example`);

test('pauses a workspace after 30 of 200 refusals, and not again by the same ones after a resume', async t => {
	t.timeout(600_000);
	let later: string | undefined = '451 4.7.1 Greylisted, please try again later';
	const {program, host} = await startMailHosts(
		t,
		{'mx.a.example': {rcpt: gone}, 'mx.later.example': {rcpt: () => later}},
		{},
		{MAILCTL_RETRY_SCHEDULE: '1s*'},
	);
	const daemon = await program.serve();
	const other = await addShop(program);
	const {send, until, shop} = await clientOf(program, daemon);
	const trySend = (to: string, {key, from, templateId} = shop) =>
		call(`${daemon.url}/v1/messages`, key, {from, to, templateId});
	const show = () => program.cli<Shown>('workspace', 'show', 'default');

	// 10 of 60 say nothing yet.
	const few = [...numbered('gone', 10), ...numbered('ann', 50)];
	const held = await send('ann@later.example');
	await eachOf(few, 8, async to => void (await send(to)));
	await waitFor('the first are tried', async () => (await show()).reputation.windows.day.attempted === 61);
	t.like(await show(), {paused: false, reputation: {state: 'fine'}});

	const more = [...numbered('gone-too', 20), ...numbered('bob', 120)];
	await eachOf(more, 8, async to => void (await trySend(to)));
	const refused = await waitFor('sends are refused', async () => {
		const answer = await trySend('eve@a.example');
		return answer.status === 403 && answer.body;
	});
	t.like(refused, {error: {code: 'sending_paused'}});
	const batch = await call(`${daemon.url}/v1/messages/batch`, shop.key, {messages: [{}]});
	t.like(batch, {status: 403, body: {error: {code: 'sending_paused'}}});

	const paused = await show();
	t.regex(paused.pause_reason ?? '', /^reputation: \d+ of \d{3} bounced in 24 hours \(1\d(\.\d+)?%, limit 10%\)$/);
	t.is(paused.reputation.state, 'paused');
	const {stdout} = await program.run('workspace', 'show', 'default');
	t.regex(stdout, /^ +reason +reputation: \d+ of/m);
	t.true(
		stdout.split('\n').every(line => line.length <= 80),
		stdout,
	);
	t.regex(stdout, /^ +24 hours +\d+ of \d+ \(1\d(\.\d+)?%\) bounced, 0 of \d+ \(0%\) complained$/m);
	t.like(await logged(program, 'workspace_paused'), {length: 1, 0: {level: 'error'}});
	const metrics = await (await fetch(`${daemon.url}/metrics`)).text();
	t.regex(metrics, /^mailctl_workspace_trouble\{workspace="ws_\w+",state="paused"\} 1$/m);
	t.regex(metrics, /^mailctl_reputation_copies\{workspace="ws_\w+",window="day",what="hard"\} [1-3]\d$/m);

	// Mail of others goes on; what is queued is held.
	t.is((await trySend('ann@a.example', other)).status, 202);
	later = undefined;
	const [why] = await program.cli<Array<{waits_for: string; detail: string}>>('queue', 'why', held);
	t.is(why?.waits_for, 'paused');
	t.regex(why?.detail ?? '', /bounced in 24 hours/);
	t.is(host('mx.later.example').count(), 0);

	await program.cli('workspace', 'resume', 'default');
	await until(held, 'delivered');
	for (const to of numbered('gone-later', 3)) {
		await until(await send(to), 'bounced');
	}
	await until(await send('cat@a.example'), 'delivered');
	const resumed = await show();
	t.like(resumed, {paused: false, pause_reason: null, reputation: {state: 'fine'}});
	// What was held before its first try counts too.
	const {attempted, hard} = resumed.reputation.windows.day;
	t.true(attempted >= 4 && attempted < 100 && hard >= 3, `${hard} of ${attempted}`);
	t.truthy(resumed.reputation.since);
	t.is((await trySend('dan@a.example', await welcomeOf(program))).status, 202);
	t.is(await daemon.stop(), 0);
});
