import test from 'ava';
import {explainReply} from '../../src/bounce/explain-reply.ts';
import {classify} from '../helpers/classify.ts';

test('a reply is read as it was copied', t => {
	t.deepEqual(explainReply(classify, '550 5.1.1 <u@example.com>: no such user\n'), {
		code: 550,
		enhanced: '5.1.1',
		phase: 'rcpt',
		host: null,
		text: '5.1.1 <u@example.com>: no such user',
		category: 'unknown_user',
		type: 'permanent',
		suppresses: true,
		rule: 'no-such-user-certain',
		matched: 'no such user',
	});
});

test('its lines are one text, the phase and the host count', t => {
	const lines = '550-5.7.1 The message looks\r\n550 5.7.1 like spam';
	t.like(explainReply(classify, lines, {phase: 'dot'}), {
		category: 'spam_content',
		text: '5.7.1 The message looks\n5.7.1 like spam',
	});
	t.like(explainReply(classify, '550 unknown user', {mx: 'mx.docomo.ne.jp'}), {suppresses: false});
	t.like(explainReply(classify, '550 unknown user', {phase: 'greeting'}), {suppresses: false});
});

test('what is no reply is read all the same', t => {
	t.like(explainReply(classify, 'User unknown'), {code: null, category: 'unknown_user'});
	t.like(explainReply(classify, ''), {code: null, category: 'undetermined', rule: null, matched: null});
});
