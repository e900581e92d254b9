import test from 'ava';
import {maskPasswords} from '../../src/config/parsers.ts';
import {hasPassword, parseRoute, withPasswords} from '../../src/mail/route.ts';

const urls = [
	'smtp://user:s3cret%2F@mail.example:587',
	'ses://AKID:s3cret%2F@eu-west-1',
	'mailgun+https://s3cret%2F@api.mailgun.net/mg.shop.example',
	'postmark+https://s3cret%2F@api.postmarkapp.com',
	'MailGun+HTTPS://s3cret%2F@api.mailgun.net/mg.shop.example',
];

for (const url of urls) {
	test(`seals and masks only the secret: ${url}`, t => {
		t.true(parseRoute(url).ok);
		t.true(hasPassword(url));
		const seen: string[] = [];
		const sealed = withPasswords(url, password => {
			seen.push(password);
			return 'sealed:/1';
		});
		t.deepEqual(seen, ['s3cret/']);
		t.is(sealed, url.replace('s3cret%2F', 'sealed%3A%2F1'));
		t.is(
			withPasswords(sealed, () => 's3cret/'),
			url,
		);
		t.is(maskPasswords(url), url.replace('s3cret%2F', '***'));
	});
}

test('seals and masks each secret of a list', t => {
	const list = urls.join(',');
	t.is(maskPasswords(list).includes('s3cret'), false);
	t.is(withPasswords(list, () => 'x').includes('s3cret'), false);
	t.like(parseRoute(list), {ok: true, route: {kind: 'smarthosts', relays: {length: 5}}});
});
