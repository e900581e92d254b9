import {readFileSync} from 'node:fs';
import test from 'ava';
import fc from 'fast-check';
import {AddressGuard, hostOf, refusedPorts} from '../../../src/resources/webhooks/address-guard.ts';
import {anyChar} from '../../helpers/any-char.ts';
import {refusedUrls} from '../../helpers/refused-urls.ts';

const guard = new AddressGuard({allowCidrs: [], allowsLocal: false});

for (const url of refusedUrls) {
	test(`rejects ${JSON.stringify(url)}`, t => {
		t.regex(guard.urlProblem(url) ?? 'taken', /^must /);
	});
}

for (const url of [
	'https://shop.example/hooks',
	'https://SHOP.example:8443/hooks?x=1#y',
	'https://shop.example.:443/',
	'https://xn--bcher-kva.example/',
	'https://bücher.example/',
	'https://93.184.215.14/',
	'https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]/',
	'https://localhost.example/',
	'https://a_b.example/',
	'https://shop.example:80/',
	'https://shop.example:1024/',
	'https://shop.example:65535/',
]) {
	test(`accepts ${url}`, t => {
		t.is(guard.urlProblem(url), null);
	});
}

test('the host is the name that is resolved and verified', t => {
	t.is(hostOf(new URL('https://Shop.Example.:8443/')), 'shop.example');
	t.is(hostOf(new URL('https://[::1]/')), '::1');
});

test('allowed ranges relax the check of addresses, never that of names', t => {
	const lab = new AddressGuard({allowCidrs: ['127.0.0.0/8', 'fd00::/8'], allowsLocal: false});
	t.is(lab.urlProblem('https://127.0.0.1:8443/'), null);
	t.is(lab.urlProblem('https://[fd12::1]/'), null);
	t.true(lab.allows('127.9.9.9'));
	t.true(lab.allows('fd12::1'));
	t.false(lab.allows('10.0.0.1'));
	t.false(lab.allows('fe80::1'));
	for (const url of ['https://localhost/', 'https://x.localhost/', 'https://intranet/', 'https://10.0.0.1/']) {
		t.regex(lab.urlProblem(url) ?? 'taken', /^must /, url);
	}
});

test('capture mode also allows local programs over HTTP with a port, and nothing else', t => {
	const capture = new AddressGuard({allowCidrs: [], allowsLocal: true});
	for (const url of [
		'http://localhost:3000/hooks',
		'http://LOCALHOST.:3000/',
		'http://127.1:8080/',
		'http://[::1]:1024/',
	]) {
		t.is(capture.urlProblem(url), null, url);
		t.true(capture.isLocal(new URL(url)), url);
		t.regex(guard.urlProblem(url) ?? 'taken', /^must .*MAILCTL_DELIVERY=capture.*MAILCTL_WEBHOOK_ALLOW_CIDRS/, url);
		t.false(guard.isLocal(new URL(url)), url);
	}
	for (const url of [
		...refusedUrls,
		...['http://localhost/', 'http://localhost:80/', 'http://localhost:22/', 'http://localhost:5432/'],
		...['http://u:p@localhost:3000/', 'http://x.localhost:3000/', 'http://10.0.0.1:3000/', 'http://ok.test:3000/'],
		...['https://localhost:3000/', 'https://127.0.0.1:3000/', 'ws://localhost:3000/', 'http://0:3000/'],
	]) {
		t.regex(capture.urlProblem(url) ?? 'taken', /^must /, url);
	}
	t.false(capture.allows('127.0.0.1'), 'a name that resolves to it stays refused');
	for (const url of [
		'https://localhost:3000/',
		'http://10.0.0.1/x',
		'http://localhost/',
		'http://printer.local:9000/',
	]) {
		const both = /here http:\/\/localhost:PORT is allowed, and MAILCTL_WEBHOOK_ALLOW_CIDRS allows https to such/;
		t.regex(capture.urlProblem(url) ?? '', both, url);
	}
	t.is(capture.urlProblem('http://shop.example/'), 'must be an https URL');
});

test('rejects text that is not an IP address', t => {
	for (const address of ['', 'localhost', '127.1', '2130706433', '::ffff:10.0.0.1', 'fe80::1%lo']) {
		t.false(guard.allows(address), address);
	}
});

test('never throws, and accepts only HTTPS to a full name or a public address', t => {
	const host = fc.oneof(
		fc.domain(),
		fc.ipV4(),
		fc.ipV4Extended(),
		fc.ipV6().map(ip => `[${ip}]`),
		fc.string(),
	);
	const text = fc.oneof(
		fc.string({unit: anyChar}),
		fc.webUrl({validSchemes: ['http', 'https', 'ftp'], withQueryParameters: true}),
		fc.tuple(host, fc.nat(70_000)).map(([name, port]) => `https://${name}:${port}/`),
	);
	fc.assert(
		fc.property(text, url => {
			const fault = guard.urlProblem(url);
			if (fault === null) {
				const parsed = new URL(url);
				const name = hostOf(parsed);
				t.is(parsed.protocol, 'https:');
				t.is(parsed.username + parsed.password, '');
				t.true(['', '80'].includes(parsed.port) || Number(parsed.port) > 1023, parsed.port);
				t.true(guard.allows(name) || /^[^:[\]]+\.(?!\d+$)[^:[\].]+$/.test(name), name);
			} else {
				t.regex(fault, /^must /);
			}
		}),
		{numRuns: 2000},
	);
});

test('rejects database ports and those up to 1023 except 80 and 443, as listed in the docs', t => {
	const page = readFileSync('docs/reference/webhooks.md', 'utf8');
	const told = /<!-- ports -->\n([\s\S]*?)\n\n/.exec(page)?.[1] ?? '';
	t.deepEqual(
		[...told.matchAll(/\d{4,5}/g)].map(([port]) => Number(port)),
		[...refusedPorts].sort((a, b) => a - b),
	);
	for (let port = 0; port <= 65_535; port++) {
		const good = port === 80 || port === 443 || (port > 1023 && !refusedPorts.includes(port));
		t.is(guard.urlProblem(`https://shop.example:${port}/`) === null, good, String(port));
	}
});
