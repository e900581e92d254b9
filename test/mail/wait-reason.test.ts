import {readFileSync} from 'node:fs';
import test from 'ava';
import {readWaitReason, reasonText, type WaitReason, waitParameters} from '../../src/mail/wait-reason.ts';
import {reasonOf} from '../helpers/wait-reasons.ts';

const all: readonly WaitReason[] = Object.values(reasonOf);

test('stores a reason as its code and parameters', t => {
	for (const reason of all) {
		t.deepEqual(readWaitReason(reason.code, waitParameters(reason)), reason);
	}
});

for (const [reason, text] of [
	[{...reasonOf.warm_up, perDay: 0}, '192.0.2.1 is new and does not send yet (MAILCTL_WARM_UP)'],
	[{...reasonOf.warm_up, perDay: 1}, '192.0.2.1 is new and has sent big its 1 message for today'],
	[{code: 'rate', perMinute: 1, slowed: false}, 'its servers are limited to 1 message per minute'],
	[{code: 'rate', perMinute: 2, slowed: true}, 'its servers are limited to 2 messages per minute for now'],
	[reasonOf.rate, 'its servers are limited to 30 messages per minute for now: 421 4.7.0 low reputation'],
	[{...reasonOf.route, probing: false}, 'the relay refuses our mail: 535 5.7.8 no.'],
	[
		{...reasonOf.suspension, reply: 'connect ETIMEDOUT', probing: true},
		'sending to the mail servers of x.test is backing off: connect ETIMEDOUT; one message is testing whether that is over',
	],
] as const) {
	test(`writes "${text}"`, t => {
		t.is(reasonText(reason, 'x.test'), text);
	});
}

test('docs/internals/queue.md lists every code with its stored parameters', t => {
	const rows = [...readFileSync('docs/internals/queue.md', 'utf8').matchAll(/^\| `(\w+)` \| `(\{.*\})` \|/gm)];
	t.deepEqual(
		Object.fromEntries(rows.map(([, code, parameters]) => [code, JSON.parse(`${parameters}`)])),
		Object.fromEntries(all.map(reason => [reason.code, JSON.parse(waitParameters(reason))])),
	);
});
