import {mkdtemp} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import test from 'ava';
import {browserOf} from '../helpers/browser.ts';
import {serviceOf} from '../helpers/service.ts';
import {type Receiver, startReceiver} from '../helpers/webhook-receiver.ts';

// One daemon and one browser for all test files of this folder that need no settings of their own: `npm test` runs them
// in one process (test/together.ts), as to start a daemon costs more than most of them do.

const letter = `<html><head><link rel="preconnect" href="https://elsewhere.example"><base href="https://elsewhere.example/">
<meta http-equiv="refresh" content="0; url=https://elsewhere.example/"></head><body><h1>Hello {{ name }}</h1>
<a href="https://shop.example/orders?a=1&amp;b=2" data-notrack>Orders</a><img src="https://elsewhere.example/pixel.png"></body></html>`;
const hostile =
	'<script>alert(1)</script><link rel=preconnect href=https://evil.example><img src=https://evil.example/x>';

export let receiver: Receiver;

export const service = serviceOf(test, {
	workspaces: {
		// The oldest is what a user of all workspaces sees first.
		...{shop: [], other: []},
		// Of files that count what there is, or where nothing may be there yet.
		...{listed: [], followed: [], mailed: [], designed: [], hooked: [], charted: [], bare: [], looked: []},
		...{calm: [], bound: [], parked: []},
		...{counted: [], empty: [], stopped: [], tried: []},
	},
	async settings(scope) {
		receiver = await startReceiver(scope, await mkdtemp(join(tmpdir(), 'mailctl-hooks-')), ['hooks.shop.example']);
		return {...receiver.settings, MAILCTL_WEBHOOK_BACKOFF: '1ms'};
	},
	templates: {
		letter: {'template.json': '{"subject":"Hello {{ name }}"}', 'body.html': letter},
		receipt: {
			'template.json': '{"subject":"<b>Receipt</b> {{ number }}","subjects":{"de":"Beleg {{ number }}"}}',
			'body.html': `<p>Total {{ total }}</p>${hostile}`,
			'body.de.html': '<p>Summe {{ total }}</p>',
			'sample.json': '{"number": 1042, "total": "19.90"}',
		},
		// What the caller says.
		mail: {'template.json': '{"subject":"{{ subject }}"}', 'body.html': '{{ body | raw }}'},
	},
});

export const browserFor = browserOf(test);
