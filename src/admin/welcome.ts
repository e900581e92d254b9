import {relative} from 'node:path';
import type {Bootstrapped} from './bootstrap.ts';

export type WelcomeInput = Bootstrapped & {
	/** Where the API is or will be, without a slash at the end. */
	readonly url: string;
	/** How the CLI is called from here, see `commandName`. */
	readonly command: string;
	/** Whether mail is captured, not delivered. */
	readonly captures: boolean;
};

/**
 * What a fresh store's first start prints, once: at most 80 columns, and a command that can be pasted as it stands: each
 * of its lines is a whole word of the shell, so that neither a script nor a hand can take half a string of it.
 */
export function welcome({sender, templateId, liveKey, testKey, url, command, captures}: WelcomeInput): string[] {
	return [
		'This is a fresh store. It got a workspace (default), a sender',
		`(${sender}), a template (sample) and two API keys:`,
		'',
		`  live  ${liveKey}`,
		`  test  ${testKey}`,
		'',
		'They are shown only this once. To make another:',
		'',
		`  ${command} key create --name app`,
		'',
		'Send a first mail; paste this as it stands:',
		'',
		`curl -sS ${url}/v1/messages \\`,
		`  -H 'Authorization: Bearer ${liveKey}' \\`,
		"  -H 'Content-Type: application/json' \\",
		`  -d '{"from":"${sender}","to":"you@example.org",'\\`,
		`'"templateId":"${templateId}",'\\`,
		`'"data":{"name":"Zoë","url":"https://shop.example/orders/1042",'\\`,
		`'"order":{"number":"1042","currency":"EUR","total":42.9,'\\`,
		`'"placed_at":"2026-06-09T17:30:00Z","items":['\\`,
		`'{"name":"Notebook, ruled","quantity":2,"price":12.5},'\\`,
		`'{"name":"Fountain pen","quantity":1,"price":17.9}]}}}'`,
		'',
		'Then see what became of it:',
		'',
		`  ${command} message list`,
		`  ${command} message show ID`,
		...(captures
			? [
					`  ${command} message raw ID > first.eml`,
					'',
					'Mail is captured in the data folder and delivered nowhere until MAILCTL_DELIVERY',
					'is mx or relay: see README.md, Sending for real.',
				]
			: []),
	];
}

/** How to call this program again from the same folder. */
export function commandName(script: string, cwd: string): string {
	const path = relative(cwd, script);
	if (path === 'bin/mailctl.js') {
		return 'node bin/mailctl.js';
	}
	return path.startsWith('node_modules') ? 'npx mailctl' : 'mailctl';
}
