import {relative} from 'node:path';
import {type Bootstrapped, firstUser} from './bootstrap.ts';

export type WelcomeInput = Omit<Bootstrapped, 'logInToken'> & {
	/** Logs in to the dashboard once; null: no dashboard. */
	readonly link: string | null;
	/** Where the API is or will be, without a slash at the end. */
	readonly url: string;
	/** How the CLI is called from here, see `commandName`. */
	readonly command: string;
	/** Whether this goes to a file, not to a terminal. */
	readonly inFile: boolean;
};

/**
 * What a fresh store's first start says, once: at most 80 columns, and a command that can be pasted as it is: each
 * of its lines is a whole word of the shell, so that neither a script nor a hand can take half a string of it.
 */
export function welcome(input: WelcomeInput): string[] {
	const {sender, liveKey, testKey, command, inFile, link} = input;
	return [
		...(link === null ? [] : logIn(link, command)),
		...(sender === null
			? ['This is a fresh store. It got a workspace (default), a template (sample)', 'and two API keys:']
			: [
					'This is a fresh store. It got a workspace (default), a sender',
					`(${sender}), a template (sample) and two API keys:`,
				]),
		'',
		`  live  ${liveKey}`,
		`  test  ${testKey}`,
		'',
		inFile
			? 'Keep them elsewhere and remove this file. To make another:'
			: 'They are shown only this once. To make another:',
		'',
		`  ${command} key create --name app`,
		'',
		...(sender === null ? ownDomain(command) : firstMail({...input, sender})),
	];
}

function logIn(link: string, command: string): string[] {
	return [
		'Open the dashboard with this link. It logs in once, within an hour, as',
		`${firstUser}:`,
		'',
		`  ${link}`,
		'',
		'For another link:',
		'',
		`  ${command} user link ${firstUser}`,
		'',
	];
}

function firstMail({sender, templateId, liveKey, url, command}: WelcomeInput & {readonly sender: string}): string[] {
	return [
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
		`  ${command} message raw ID > first.eml`,
		'',
		'Mail is captured in the data folder and delivered nowhere until MAILCTL_DELIVERY',
		'is mx or relay: see README.md, Sending for real.',
	];
}

function ownDomain(command: string): string[] {
	return [
		'Mail needs a sender of your own domain. Publish the DNS records that the first',
		'command prints, then run the others:',
		'',
		`  ${command} domain add YOUR-DOMAIN`,
		`  ${command} domain verify YOUR-DOMAIN`,
		`  ${command} sender add no-reply@YOUR-DOMAIN`,
		'',
		'README.md, Sending for real, has the rest.',
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
