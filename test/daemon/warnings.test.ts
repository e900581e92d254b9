import test from 'ava';
import {pino} from 'pino';
import {warnAtStart} from '../../src/daemon/upkeep.ts';

const settings: Parameters<typeof warnAtStart>[0]['settings'] = {
	roles: ['api', 'deliver'],
	delivery: 'mx',
	webhookAllowCidrs: [],
	adminListen: null,
	httpListen: {host: '127.0.0.1', port: 8125},
	publicUrl: null,
	hostname: 'mail.shop.example',
};

function warned(changes: Partial<typeof settings>, inContainer: boolean): Array<{event: string; msg: string}> {
	const lines: string[] = [];
	const logger = pino({base: null}, {write: (line: string) => void lines.push(line)});
	const publicUrl = changes.publicUrl ?? 'http://127.0.0.1:8125';
	warnAtStart({settings: {...settings, ...changes}, publicUrl, isInContainer: inContainer, logger});
	return lines.map(line => JSON.parse(line));
}

test('warns once about a guessed public URL: for a wildcard address, and in a container', t => {
	const events = (changes: Partial<typeof settings>, inContainer = false) =>
		warned(changes, inContainer).map(({event}) => event);
	t.deepEqual(events({}), ['public_url_not_https']);
	t.deepEqual(events({delivery: 'capture'}), []);
	t.deepEqual(events({httpListen: {host: '0.0.0.0', port: 8125}}, true), ['public_url_guessed']);
	t.deepEqual(events({delivery: 'capture', httpListen: {host: '::', port: 8125}}), ['public_url_guessed']);
	t.deepEqual(events({publicUrl: 'https://mail.shop.example', httpListen: {host: '0.0.0.0', port: 1}}, true), []);
	t.deepEqual(events({roles: ['webhook']}, true), []);
	t.regex(
		warned({httpListen: {host: '0.0.0.0', port: 8125}}, true)[0]?.msg ?? '',
		/links in messages point to http:\/\/127\.0\.0\.1:8125, .* container: set MAILCTL_PUBLIC_URL/,
	);
});

test('warns about a hostname without a dot if messages leave the machine', t => {
	const publicUrl = 'https://mail.shop.example';
	t.deepEqual(
		warned({hostname: 'vm', delivery: 'relay', publicUrl}, false).map(({event}) => event),
		['hostname_not_full'],
	);
	t.deepEqual(warned({hostname: 'vm', delivery: 'capture', publicUrl}, false), []);
});
