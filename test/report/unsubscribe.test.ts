import test from 'ava';
import {mailOf, read} from '../helpers/report-mails.ts';

for (const subject of ['unsubscribe', 'Unsubscribe', '=?utf-8?q?unsubscribe?=', '<unsubscribe>', 'opt-out']) {
	test(`a mail with the subject ${subject} asks for no more`, t => {
		const {kind, reports} = read(mailOf('From: Neko <neko@mx.example>', `Subject: ${subject}`, '', 'by iCloud'));
		t.is(kind, 'other');
		t.is(reports.length, 1);
		t.like(reports[0], {recipient: 'neko@mx.example', action: 'unsubscribe', type: 'none', suppresses: false});
	});
}

test('Apple’s field asks for no more, whatever the subject and the mark', t => {
	const raw = mailOf(
		'From: neko@mx.example',
		'X-Apple-Unsubscribe: true',
		'Auto-Submitted: auto-replied',
		'Subject: x',
		'',
		'',
	);
	t.like(read(raw).reports[0], {recipient: 'neko@mx.example', action: 'unsubscribe'});
});

test('who writes about it asks for nothing', t => {
	for (const subject of ['How do I unsubscribe?', 'Re: your unsubscribe link', 'x']) {
		t.deepEqual(read(mailOf('From: neko@mx.example', `Subject: ${subject}`, '', 'unsubscribe')).reports, []);
	}
});
