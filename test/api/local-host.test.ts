import test from 'ava';
import type {FastifyReply, FastifyRequest} from 'fastify';
import {localHostGuard} from '../../src/api/pages.ts';

function passes(host: string | undefined, name = 'admin.internal', {encrypted = false, open = ''} = {}): boolean {
	let fault: unknown = 'not called';
	const guard = localHostGuard(name, open);
	const done = (error?: Error) => {
		fault = error;
	};
	guard.call(
		{} as never,
		{headers: {host}, raw: {socket: {encrypted}}} as unknown as FastifyRequest,
		{} as FastifyReply,
		done,
	);
	return fault === undefined;
}

test('accepts an IP address, localhost and the server’s own name, with or without a port', t => {
	for (const host of [
		'127.0.0.1',
		'127.0.0.1:8126',
		'[::1]',
		'[::1]:8126',
		'localhost',
		'LOCALHOST:1',
		'localhost.',
		'10.0.0.7',
	]) {
		t.true(passes(host), host);
	}
	t.true(passes('Admin.Internal:8126'));
	t.true(passes('admin.internal', 'Admin.Internal'));
	t.true(passes(undefined), 'HTTP/1.0 names none');
});

test('accepts only the public name over our own TLS, because strangers can send any name', t => {
	for (const host of ['127.0.0.1', '[::1]', 'localhost', 'admin.internal', '192.0.2.1', undefined, '']) {
		t.false(passes(host, 'admin.internal', {encrypted: true}), host);
		t.false(passes(host, 'admin.internal', {encrypted: true, open: 'mail.example'}), host);
	}
	t.true(passes('Mail.example:443', 'admin.internal', {encrypted: true, open: 'mail.example'}));
	t.true(passes('mail.example', '127.0.0.1', {open: 'mail.example'}), 'behind a proxy');
});

test('refuses any other name, even one that looks local', t => {
	for (const host of [
		'rebound.example',
		'127.0.0.1.rebound.example',
		'localhost.rebound.example',
		'localhost:80:80',
		'[::1',
		'x localhost',
	]) {
		t.false(passes(host), host);
	}
	t.false(passes('evil.example', ''));
});
