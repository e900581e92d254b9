/** A fault that somebody could make, and the tests that have to fail with it. */
export type Fault = {
	readonly name: string;
	/** A file of src. */
	readonly file: string;
	/** A piece of its text; it occurs once. */
	readonly from: string;
	/** What the fault makes of it. */
	readonly to: string;
	/** Each of these files fails, at the lowest level that can show the fault. */
	readonly foundBy: readonly string[];
};

/** One of each promise whose loss would cost mail, money or trust. */
export const faults: readonly Fault[] = [
	{
		name: 'settle: what a relay accepted counts as delivered',
		file: 'src/outcome/settle.ts',
		from: "return done('sent', null);",
		to: "return done('delivered', 'delivered');",
		foundBy: ['test/outcome/states.test.ts'],
	},
	{
		name: 'claims: a node ends the claim that another node has taken over',
		file: 'src/store/queue/outcomes.ts',
		from: `where claimed_by = ? and attempts = ? and \${condition} returning recipient_id as id, queued\`,
			[boot, attempts, ...ids],`,
		to: `where attempts = ? and \${condition} returning recipient_id as id, queued\`,
			[attempts, ...ids],`,
		foundBy: ['test/outcome/states.test.ts'],
	},
	{
		name: 'accept: a write is answered before its transaction commits',
		file: 'src/store/engine/writer.ts',
		from: 'results.set(entry, applied[index]);',
		to: 'results.set(entry, applied[index]);\n\t\t\tentry.resolve(applied[index]);',
		foundBy: ['test/store/engine/writer.test.ts'],
	},
	{
		name: 'suppressions: addresses in cc are not looked for on the list',
		file: 'src/send/write.ts',
		from: "'cc', context.blocks.findReason(entry.draft, address.key), context",
		to: "'cc', null, context",
		foundBy: ['test/send/send.test.ts'],
	},
	{
		name: 'opt-outs: who left mail without a topic after it was accepted gets it',
		file: 'src/store/queue/claims.ts',
		from: 'and o.code = coalesce(m.topic_code,',
		to: 'and m.topic_code = coalesce(o.code,',
		foundBy: ['test/hosted/preferences.test.ts'],
	},
	{
		name: 'workspaces: the key of one reads the messages of another',
		file: 'src/store/messages.ts',
		from: "\t\t.where({'m.workspace_id': workspaceId})\n",
		to: '',
		foundBy: ['test/resources/messages/api.test.ts'],
	},
	{
		name: 'SSRF: one public address lets a webhook reach the private ones of its name',
		file: 'src/resources/webhooks/post.ts',
		from: 'addresses.find(address => !guard.allows(address))',
		to: 'addresses.every(address => !guard.allows(address)) ? addresses[0] : undefined',
		foundBy: ['test/resources/webhooks/post.test.ts'],
	},
	{
		name: 'DKIM: a field that is added later does not break the signature',
		file: 'src/compose/dkim.ts',
		from: 'count <= present.length',
		to: 'count < present.length',
		foundBy: ['test/compose/dkim.test.ts'],
	},
	{
		name: 'quota: one message more than the month allows',
		file: 'src/send/write.ts',
		from: '(totals.get(workspaceId) ?? 0) - limit)',
		to: '(totals.get(workspaceId) ?? 0) - limit - 1)',
		foundBy: ['test/send/quota.test.ts'],
	},
	{
		name: 'tokens: the signature of a return path does not cover the address',
		file: 'src/compose/links/tokens.ts',
		from: '.update(id).update(address.toLowerCase())',
		to: '.update(id)',
		foundBy: ['test/compose/links/links.test.ts'],
	},
	{
		name: 'idempotency: a key that comes again with other data repeats the first response',
		file: 'src/send/draft.ts',
		from: 'toDigest([from, to, templateId, data])',
		to: 'toDigest([from, to, templateId])',
		foundBy: ['test/send/idempotency.test.ts'],
	},
	{
		name: 'bounces: every 5xx suppresses the address, whatever was refused',
		file: 'src/mail/classify-reply.ts',
		from: 'const isHard = suppresses(category);',
		to: 'const isHard = facts.class === 5;',
		foundBy: ['test/mail/bounce/code-table.test.ts'],
	},
	{
		name: 'retries: the schedule begins with its second wait',
		file: 'src/mail/retry.ts',
		from: 'waits[failed.attempts - 1]',
		to: 'waits[failed.attempts]',
		foundBy: ['test/mail/retry.test.ts'],
	},
	{
		name: 'expiry: a send that expires is tried until the end of the queue lifetime',
		file: 'src/mail/retry.ts',
		from: 'return ms < retry.lifetime ?',
		to: 'return ms > retry.lifetime ?',
		foundBy: ['test/queue/expiry.test.ts'],
	},
	{
		name: 'MIME: an equals sign stays as it is in quoted-printable',
		file: 'src/compose/body-writer.ts',
		from: 'kinds[0x3d] = encode;',
		to: 'kinds[0x3d] = literal;',
		foundBy: ['test/compose/quoted-printable.test.ts'],
	},
	{
		name: 'dot stuffing: a dot after a bare CR is not doubled',
		file: 'src/deliver/transaction.ts',
		from: 'of [lineFeedDot, carriageReturnDot]',
		to: 'of [lineFeedDot]',
		foundBy: ['test/deliver/dot-stuffing.test.ts'],
	},
	{
		name: 'MX: the least preferred host is asked first',
		file: 'src/deliver/find-hosts.ts',
		from: 'a.priority - b.priority',
		to: 'b.priority - a.priority',
		foundBy: ['test/deliver/mx-hosts.test.ts'],
	},
	{
		name: 'TLS: MTA-STS is satisfied by any certificate',
		file: 'src/deliver/open-session.ts',
		from: "{host: name, verify: tls === 'required'}",
		to: '{host: name, verify: false}',
		foundBy: ['test/deliver/mta-sts.test.ts'],
	},
	{
		name: 'webhooks: the signature does not cover the time',
		file: 'src/resources/webhooks/post.ts',
		from: `.update(\`\${timestamp}.\`)`,
		to: '',
		foundBy: ['test/resources/webhooks/sign.test.ts'],
	},
	{
		name: 'webhooks: one attempt more than the last',
		file: 'src/mail/webhook.ts',
		from: 'return attemptCount >= maxAttempts',
		to: 'return attemptCount > maxAttempts',
		foundBy: ['test/mail/webhook.test.ts'],
	},
	{
		name: 'retention: messages with a recipient in the queue are removed',
		file: 'src/store/retention.ts',
		from: 'const old = ids.filter(id => !waiting.has(id));',
		to: 'const old = ids;',
		foundBy: ['test/daemon/sweep-tasks.test.ts'],
	},
	{
		name: 'erasure: the events of messages to the person keep the address',
		file: 'src/outcome/erase.ts',
		from: '\t\tawait eraseTimelines(trx, recipients, erasedDetails);\n',
		to: '',
		foundBy: ['test/outcome/erase.test.ts'],
	},
	{
		name: 'templates: a value that has quotes alone is not escaped',
		file: 'src/compose/render/liquid-engine.ts',
		from: `const escaped = /[&<>"']/;`,
		to: 'const escaped = /[&<>]/;',
		foundBy: ['test/compose/render/render.test.ts'],
	},
	{
		name: 'pages: the first row of the next page is passed over',
		file: 'src/api/paging.ts',
		from: '(rows.at(-1)?.id ?? null)',
		to: '(results.at(-1)?.id ?? null)',
		foundBy: ['test/resources/suppressions/api.test.ts'],
	},
	{
		name: 'scheduled sends: due at once',
		file: 'src/send/write.ts',
		from: 'barred === null ? (sendAt ?? now) : null',
		to: 'barred === null ? now : null',
		foundBy: ['test/resources/messages/scheduled-api.test.ts'],
	},
	{
		name: 'cancellation: a message is cancelled while a node is delivering it',
		file: 'src/store/queue/open-recipients.ts',
		from: 'untried.length === ids.length && isBegun === undefined',
		to: 'isBegun === undefined',
		foundBy: ['test/resources/messages/scheduled-api.test.ts'],
	},
	{
		name: 'dashboard: forms need no token',
		file: 'src/dashboard/mount.ts',
		from: "\t\t\t...(route.method === 'POST' && {preHandler: scope.csrfProtection}),\n",
		to: '',
		foundBy: ['test/dashboard/rules.test.ts'],
	},
	{
		name: 'dashboard: the path opens any workspace',
		file: 'src/dashboard/visitor.ts',
		from: 'found && [null, found.id].includes(user.workspaceId) ? found : undefined',
		to: 'found || undefined',
		foundBy: ['test/dashboard/workspace-url.test.ts'],
	},
	{
		name: 'login: one failed attempt more than the limit',
		file: 'src/resources/users/failed-log-ins.ts',
		from: 'window.n >= max',
		to: 'window.n > max',
		foundBy: ['test/resources/users/failed-log-ins.test.ts'],
	},
	{
		name: 'alerts: each node that sees a condition begin announces it',
		file: 'src/resources/alerts/watch.ts',
		from: 'if (isFirst && next !== null',
		to: 'if (next !== null',
		foundBy: ['test/resources/alerts/watch.test.ts'],
	},
	{
		name: 'migrations: one that older programs cannot work with does not wait for their nodes',
		file: 'src/store/engine/migrate.ts',
		from: '\t\t\tawait beforeBreaking?.(trx);\n',
		to: '',
		foundBy: ['test/store/schema.test.ts'],
	},
];
