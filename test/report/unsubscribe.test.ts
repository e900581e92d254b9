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

test('a request that is marked as an automatic reply is one', t => {
	const raw = mailOf('From: neko@mx.example', 'Auto-Submitted: auto-replied', 'Subject: unsubscribe', '', '');
	t.like(read(raw), {kind: 'other', reports: [{action: 'unsubscribe'}]});
	const other = mailOf('From: neko@mx.example', 'Auto-Submitted: auto-replied', 'Subject: Re: unsubscribe', '', '');
	t.like(read(other), {kind: 'auto_reply', reports: [{action: 'none'}]});
});

test('who writes about it asks for nothing', t => {
	for (const subject of ['How do I unsubscribe?', 'Re: your unsubscribe link', 'x']) {
		t.deepEqual(read(mailOf('From: neko@mx.example', `Subject: ${subject}`, '', 'unsubscribe')).reports, []);
	}
});
