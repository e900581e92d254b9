import test from 'ava';
import type {BounceCategory} from '../../../src/mail/outcome.ts';
import {smtpReply} from '../../../src/mail/outcome.ts';
import {classify} from '../../helpers/classify.ts';
import {ofOthers, replies, type Sample} from './replies.ts';

const samples = Object.entries(replies).flatMap(([category, list]) =>
	list.map(sample => ({category: category as BounceCategory, sample: whole(sample)})),
);

function whole(sample: Sample) {
	return typeof sample === 'string' ? {reply: sample} : sample;
}

/** The reply as a session returns it: code and text separate, without the code on each line. */
function inSession(reply: string) {
	const code = /^[245]\d\d(?=[ -])/.exec(reply)?.[0];
	return code === undefined
		? {code: null, enhanced: null, text: reply}
		: smtpReply(
				Number(code),
				reply.split('\n').map(line => line.replace(/^\d{3}[ -]/, '')),
			);
}

for (const {category, sample} of samples) {
	const {reply, host = null, phase} = sample;
	test(`${reply} → ${category}`, t => {
		const judged = classify({...inSession(reply), phase: phase ?? 'rcpt', status: null, host});
		t.is(judged.category, category, JSON.stringify(judged));
	});

	test(`in the text of a bounce message: ${reply} → ${category}`, t => {
		const command = {mail: 'MAIL FROM', dot: 'end of DATA'}[phase as string] ?? 'RCPT TO';
		const said =
			phase === 'greeting'
				? `refused to talk to me: ${reply}`
				: `said: ${reply} (in reply to ${command} command)`;
		const text = `<u@example.com>: host spam-virus.filter.example[192.0.2.7] ${said}`;
		const judged = classify({phase: null, code: null, enhanced: null, status: null, text, host});
		t.is(judged.category, category, JSON.stringify(judged));
	});
}

const dead: ReadonlySet<BounceCategory> = new Set(['unknown_user', 'unknown_domain', 'disabled', 'moved']);
for (const reply of ofOthers) {
	test(`is not about the recipient: ${reply}`, t => {
		const judged = classify({...inSession(reply), phase: 'rcpt', status: null, host: null});
		t.false(dead.has(judged.category), JSON.stringify(judged));
	});
}

test('covers at least 250 replies without duplicates', t => {
	const texts = samples.map(({sample}) => JSON.stringify(sample));
	t.true(texts.length >= 250, String(texts.length));
	t.is(new Set(texts).size, texts.length);
});
