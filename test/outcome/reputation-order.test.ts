import test from 'ava';
import {storeTime} from '../../src/kit/time.ts';
import type {Attempt, AttemptResult, Outcome} from '../../src/mail/outcome.ts';
import type {Report} from '../../src/mail/report.ts';
import {createRecordWrite} from '../../src/outcome/record.ts';
import {toFigures, type Weight} from '../../src/outcome/reputation.ts';
import {decideNext} from '../../src/outcome/settle.ts';
import {migrate} from '../../src/store/engine/migrate.ts';
import {type Claimed, readRecipient} from '../../src/store/queue/claims.ts';
import {openStore, type Store} from '../../src/store/store.ts';
import {engines, newLocation, storeTest} from '../helpers/databases.ts';
import {eventWriter, newId} from '../helpers/messages.ts';
import {changeRecipients} from '../helpers/recipient-rows.ts';
import {complaint, hard, mailed, reading, reportWrite, returnPath, soft, taken} from '../helpers/reports.ts';

const boot = newId('req');
const recordWrite = createRecordWrite(boot, eventWriter);
const at = storeTime(Date.now());
const blocked: Report = {...soft, category: 'block', rule: 'blocklist', matched: 'listed'};
const gone: Report = {...hard, category: 'disabled'};
const delivered: Outcome = {kind: 'delivered'};
const deferred: Outcome = {kind: 'deferred', category: 'greylist', reason: 'later'};
const refused: Outcome = {
	kind: 'bounced',
	type: 'permanent',
	category: 'unknown_user',
	reason: '550 5.1.1 User unknown',
	suppresses: true,
};
const conversation: Attempt = {
	...{at, host: 'mx.a.test', ip: null, tls: null, phase: 'rcpt', code: 550, enhanced: null, reply: 'x', ms: 1},
	dialogue: null,
};

/** A recipient in its first attempt, and what may happen to it. */
async function begun(store: Store) {
	const {to, workspaceId} = await mailed(store);
	await changeRecipients(store.database, all => all.where({id: to.id}), {
		state: 'sent',
		attempts: 0,
		claimed_by: boot,
	});
	const recipient = (await readRecipient(store.reader, workspaceId, to.id)) as Claimed;
	return {
		async end(outcome: Outcome, through = store) {
			const attempt: Attempt =
				outcome.kind === 'delivered' ? {...conversation, phase: 'dot', code: 250} : conversation;
			const result: AttemptResult = {recipientId: to.id, outcome, attempts: [attempt], sentAt: at, at};
			const retry = {schedule: {waits: [60_000], repeatLast: true}, lifetime: 1e12};
			const end = {result, acceptedAt: Date.now(), attempts: 0, sentBefore: false, retry};
			const verdict = decideNext(end, Date.now(), () => 0.5);
			await through.writer.submit(recordWrite, {recipient, rendered: null, result, verdict, crashes: 0});
		},
		async report(report: Report, through = store) {
			await through.writer.submit(reportWrite, await taken(through, reading([report]), {to: [returnPath(to)]}));
		},
		/** `attempted/hard/delivered/complained` of the workspace. */
		async figures() {
			const names = ['attempted', 'hard', 'delivered', 'complained'];
			const rows: Array<Record<string, number>> = await store
				.reader('reputation_hours')
				.where({workspace_id: workspaceId});
			return names.map(name => rows.reduce((sum, row) => sum + (row[name] ?? 0), 0)).join('/');
		},
	};
}

function orders<T>(things: readonly T[]): T[][] {
	return things.length === 0
		? [[]]
		: things.flatMap((one, n) => orders(things.toSpliced(n, 1)).map(others => [one, ...others]));
}

const cases: ReadonlyArray<readonly [title: string, outcome: Outcome, reports: readonly Report[], figures: string]> = [
	['refused, gone, complained about', refused, [gone, complaint], '1/1/0/1'],
	['refused, refused because of us, refused', refused, [blocked, hard], '1/1/0/0'],
	['delivered, refused because of us, full', delivered, [blocked, soft], '0/0/0/0'],
	['delivered, refused because of us, complained about', delivered, [blocked, complaint], '1/0/1/1'],
	['delivered, full, gone', delivered, [soft, gone], '1/1/1/0'],
	['deferred, gone', deferred, [gone], '1/1/0/0'],
];

for (const [title, outcome, reports, expected] of cases) {
	storeTest(test, `${title}: counts ${expected} in every order`, async (t, store) => {
		for (const order of orders([outcome, ...reports])) {
			const recipient = await begun(store);
			for (const one of order) {
				await ('kind' in one ? recipient.end(one) : recipient.report(one));
			}
			t.is(
				await recipient.figures(),
				expected,
				order.map(one => ('kind' in one ? one.kind : one.category)).join(),
			);
		}
	});
}

for (const engine of engines) {
	test(`counts once when an attempt ends on one node and a report arrives on another (${engine})`, async t => {
		const location = await newLocation(t, engine);
		const [here, there] = [await openStore(location), await openStore(location)];
		t.teardown(() => Promise.all([here.close(), there.close()]));
		await migrate(here.database);
		for (let n = 0; n < 12; n++) {
			const recipient = await begun(here);
			const [first, second] = n % 2 === 0 ? [here, there] : [there, here];
			await Promise.all([
				recipient.report(gone, first),
				recipient.end(refused, second),
				recipient.report(hard, second),
			]);
			t.is(await recipient.figures(), '1/1/0/0');
		}
	});
}

test('adds a recipient at most once to each figure, and not before an attempt has ended', t => {
	const weights: readonly Weight[] = ['hard', 'server', 'complained'];
	for (let n = 0; n < 32; n++) {
		const course = {
			isAttempted: (n & 1) > 0,
			isAccepted: (n & 2) > 0,
			weights: new Set(weights.filter((_, index) => (n & (4 << index)) > 0)),
		};
		const {attempted, hard, delivered, complained} = toFigures(course);
		const all = [attempted, hard, delivered, complained];
		t.true(all.every(figure => figure === 0 || (figure === 1 && course.isAttempted)));
		t.true(hard <= attempted && delivered <= attempted && complained <= attempted);
		const isOnlyOfUs = course.weights.size === 1 && course.weights.has('server');
		t.is(attempted, course.isAttempted && !isOnlyOfUs ? 1 : 0);
	}
});
