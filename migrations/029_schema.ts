import type {Knex} from 'knex';
import {columnTypes} from './column-types.ts';

/**
 * The whole schema, as the steps 001 to 029 left it. A `?` after a column's name means that it may be null; other
 * columns have no default. Rows that belong to a row are deleted with it.
 */
export async function up(knex: Knex): Promise<void> {
	const isPostgres = knex.client.driverName === 'pg';
	const types = columnTypes(knex);
	const text = columnsOf(types.text);
	const integer = columnsOf('integer');
	const bytes = columnsOf(types.bytes);

	/** Tables that PostgreSQL partitions by day (`src/store/postgres/days.ts`). */
	const byDay: string[] = [];

	async function create(name: string, define: Define, options = ''): Promise<void> {
		for (const {sql} of knex.schema.createTable(name, define).toSQL()) {
			await knex.raw(sql.startsWith('create table') ? sql + options : sql);
		}
	}

	/**
	 * Creates a table whose rows are stored in key order. On SQLite that is a single B-tree, which halves the cost of
	 * small rows that are written often and read by the beginning of their key.
	 */
	async function createClustered(name: string, define: Define): Promise<void> {
		await create(name, define, isPostgres ? '' : ' without rowid');
	}

	/** Creates a table partitioned by the day of the id in `column`. */
	async function createByDay(name: string, column: string, define: Define, options = ''): Promise<void> {
		byDay.push(name);
		await create(name, define, isPostgres ? ` partition by range (${column})` : options);
	}

	async function partialIndex(name: string, on: string, where: string, kind = 'index'): Promise<void> {
		await knex.raw(`create ${kind} ${name} on ${on} where ${where}`);
	}

	function key(table: Knex.CreateTableBuilder, name: string, type = types.text): void {
		table.specificType(name, type);
		table.primary([name]);
	}

	function belongs(table: Knex.CreateTableBuilder, column: string, owner: string): void {
		table.foreign(column).references(`${owner}.id`).onDelete('CASCADE');
	}

	/** Adds a reference between tables by day. PostgreSQL would check each row, and lock it to drop a day. */
	const belongsByDay: typeof belongs = isPostgres ? () => undefined : belongs;

	// Sending: workspaces, keys, domains, senders, templates.

	await create('workspaces', table => {
		key(table, 'id');
		text(table, 'name', 'locale?', 'timezone?');
		integer(table, 'monthly_quota?');
		text(table, 'track_opens_at?', 'track_clicks_at?', 'paused_at?', 'pause_reason?', 'reputation_since?');
		integer(table, 'queue_lifetime_s?');
		text(table, 'branding?', 'created_at', 'source_pool?', 'route?');
		/** The time since which the workspace's reputation figures have been high. */
		text(table, 'reputation_warned_at?');
		table.unique(['name']);
	});

	await create('api_keys', table => {
		key(table, 'id');
		text(table, 'workspace_id', 'name', 'mode', 'hash', 'hint', 'scopes', 'rate_limit?');
		text(table, 'expires_at?', 'revoked_at?', 'last_used_at?', 'created_at');
		belongs(table, 'workspace_id', 'workspaces');
		table.unique(['hash']);
		table.index(['workspace_id', 'id'], 'api_keys_by_workspace');
	});

	await create('domains', table => {
		key(table, 'id');
		text(table, 'workspace_id', 'name', 'ownership_token', 'return_path_domain?');
		text(table, 'state', 'state_at', 'verified_at?', 'checked_at?');
		table.specificType('failures', 'integer').notNullable().defaultTo(0);
		text(table, 'created_at');
		/** The time since which its own return path has been used, because its MX and SPF were found in DNS. */
		text(table, 'return_path_at?');
		belongs(table, 'workspace_id', 'workspaces');
		table.unique(['workspace_id', 'name'], {indexName: 'domains_by_name'});
		table.index(['workspace_id', 'id'], 'domains_by_workspace');
	});

	await create('dkim_keys', table => {
		key(table, 'id');
		text(table, 'domain_id', 'selector', 'algorithm', 'public_key', 'secret');
		text(table, 'active_from', 'retired_at?', 'created_at', 'pending_at?');
		belongs(table, 'domain_id', 'domains');
		table.unique(['domain_id', 'selector'], {indexName: 'dkim_keys_by_selector'});
	});

	await create('senders', table => {
		key(table, 'id');
		text(table, 'workspace_id', 'domain_id', 'address', 'address_key', 'name?');
		text(table, 'verified_at?', 'disabled_at?', 'created_at');
		belongs(table, 'workspace_id', 'workspaces');
		belongs(table, 'domain_id', 'domains');
		table.unique(['workspace_id', 'address_key'], {indexName: 'senders_by_address'});
		table.index(['domain_id'], 'senders_by_domain');
		table.index(['workspace_id', 'id'], 'senders_by_workspace');
	});

	await create('templates', table => {
		key(table, 'id');
		text(table, 'workspace_id', 'name');
		integer(table, 'latest_version?');
		text(table, 'created_at', 'updated_at', 'deleted_at?');
		/** The id used by the API, the CLI and messages. Unique in its workspace. */
		table.specificType('public_id', types.text).notNullable().defaultTo('');
		belongs(table, 'workspace_id', 'workspaces');
		table.index(['workspace_id', 'id'], 'templates_by_workspace');
	});
	const unique = 'unique index';
	await partialIndex('templates_by_name', 'templates (workspace_id, name)', 'deleted_at is null', unique);
	await partialIndex('templates_by_public_id', 'templates (workspace_id, public_id)', 'deleted_at is null', unique);

	await create('template_versions', table => {
		key(table, 'id');
		text(table, 'template_id');
		integer(table, 'version');
		text(table, 'fingerprint', 'created_at', 'sample?');
		belongs(table, 'template_id', 'templates');
		table.unique(['template_id', 'version'], {indexName: 'template_versions_by_number'});
	});

	await create('template_variants', table => {
		text(table, 'version_id');
		integer(table, 'position');
		text(table, 'locale?', 'subject', 'kind', 'source', 'text_source?', 'html', 'text?');
		belongs(table, 'version_id', 'template_versions');
		table.primary(['version_id', 'position']);
	});

	// Messages with their recipients, attempts and events, and the queue.

	if (isPostgres) {
		await knex.raw('create sequence event_positions');
	}
	/** The position in the stream of all events (`src/store/timeline.ts`). On SQLite the writer assigns it. */
	function position(table: Knex.CreateTableBuilder): void {
		if (isPostgres) {
			table.specificType('position', 'bigint').defaultTo(knex.raw(`nextval('event_positions')`));
		} else {
			integer(table, 'position?');
		}
	}

	await createByDay('messages', 'id', table => {
		key(table, 'id');
		text(table, 'workspace_id', 'mode', 'from_address', 'from_key', 'to_address', 'to_key', 'reply_to?', 'cc?');
		text(table, 'template_id', 'version_id', 'data?', 'metadata?', 'tags?', 'topic_id?', 'topic_code?');
		text(table, 'locale?', 'timezone?', 'tracking?');
		integer(table, 'attachments');
		text(table, 'resent_from?', 'created_at', 'erased_at?');
		position(table);
		table.index(['workspace_id', 'id'], 'messages_by_workspace');
		table.index(['workspace_id', 'to_key', 'id'], 'messages_by_recipient');
		table.index(['workspace_id', 'from_key', 'id'], 'messages_by_sender');
		table.index(['workspace_id', 'template_id', 'id'], 'messages_by_template');
	});
	await partialIndex('messages_by_position', 'messages (position)', 'position is not null');
	// Everything that a test key may list. Messages of live keys do not pay for this index.
	await partialIndex('messages_of_tests', 'messages (workspace_id, id)', `mode = 'test'`);

	await createByDay('attachments', 'message_id', table => {
		text(table, 'message_id');
		integer(table, 'position');
		text(table, 'filename', 'content_type');
		bytes(table, 'content');
		belongsByDay(table, 'message_id', 'messages');
		table.primary(['message_id', 'position']);
	});

	await createByDay('recipients', 'id', table => {
		key(table, 'id');
		text(table, 'workspace_id', 'message_id', 'address', 'address_key', 'role', 'destination');
		text(table, 'state', 'state_at', 'subject?');
		integer(table, 'attempts');
		text(table, 'sent_at?', 'last_category?', 'last_reply?');
		integer(table, 'crashes');
		belongsByDay(table, 'message_id', 'messages');
		table.index(['message_id'], 'recipients_by_message');
	});
	// `messages_by_recipient` finds the others.
	await partialIndex('recipients_cc_by_address', 'recipients (workspace_id, address_key)', `role = 'cc'`);

	/**
	 * The terms by which messages are found, besides their columns: words of the subject, metadata, tags, states
	 * (`src/store/message-terms.ts`).
	 */
	await createByDay(
		'message_terms',
		'message_id',
		table => {
			text(table, 'workspace_id', 'term', 'message_id', 'members?');
			table.primary(['workspace_id', 'term', 'message_id']);
		},
		' without rowid',
	);

	await createByDay(
		'attempts',
		'recipient_id',
		table => {
			text(table, 'recipient_id');
			integer(table, 'n', 'position');
			text(table, 'at', 'host?', 'ip?', 'tls?', 'phase');
			integer(table, 'code?');
			text(table, 'enhanced?', 'reply');
			integer(table, 'ms');
			/** The conversation, unless it ended in acceptance. */
			text(table, 'dialogue?');
			belongsByDay(table, 'recipient_id', 'recipients');
			table.primary(['recipient_id', 'n', 'position']);
		},
		' without rowid',
	);

	await createByDay(
		'events',
		'message_id',
		table => {
			text(table, 'id', 'message_id', 'recipient_id?', 'type', 'occurred_at', 'recorded_at', 'detail?');
			position(table);
			/** Earlier events about the recipient that the same transaction recorded, as JSON. */
			text(table, 'earlier?');
			belongsByDay(table, 'message_id', 'messages');
			table.primary(['message_id', 'id']);
		},
		' without rowid',
	);
	await partialIndex('events_by_position', 'events (position)', 'position is not null');

	await createByDay('engagement', 'recipient_id', table => {
		text(table, 'recipient_id', 'kind', 'url');
		integer(table, 'n', 'machine_n');
		text(table, 'first_at', 'last_at');
		belongsByDay(table, 'recipient_id', 'recipients');
		table.primary(['recipient_id', 'kind', 'url']);
	});

	/** Recipients without an outcome. */
	await createClustered('queue', table => {
		text(table, 'recipient_id', 'workspace_id', 'destination', 'next_attempt_at', 'held_at?');
		table.specificType('attempts', 'integer').notNullable().defaultTo(knex.raw('0'));
		table.primary(['recipient_id']);
	});
	// Waiting recipients are counted from the index alone, so on SQLite it must contain each column that is read.
	const rest = isPostgres ? 'recipient_id' : 'held_at';
	const due = `queue (destination, workspace_id, next_attempt_at, ${rest})`;
	await partialIndex('queue_due', due, 'held_at is null');
	await partialIndex('queue_held', 'queue (destination, workspace_id)', 'held_at is not null');

	await createClustered('claims', table => {
		/** `claimed_by`: the boot id of a daemon. */
		text(table, 'recipient_id', 'claimed_by');
		/** The number of attempts before this one. */
		integer(table, 'attempts');
		/**
		 * `until`: when the claim of an unknown daemon expires. `queued`: the id of the event that a first claim
		 * implies.
		 */
		text(table, 'until', 'queued?');
		table.primary(['recipient_id']);
	});

	// Addresses: suppressions, topics, contacts.

	await create('suppressions', table => {
		key(table, 'id');
		text(table, 'workspace_id', 'address', 'address_key', 'reason', 'source', 'created_at');
		/** `test` for an entry created by a test key, which only blocks test messages. */
		table.specificType('mode', types.text).notNullable().defaultTo('live');
		belongs(table, 'workspace_id', 'workspaces');
		table.unique(['workspace_id', 'address_key'], {indexName: 'suppressions_by_address'});
		table.index(['workspace_id', 'id'], 'suppressions_by_workspace');
		table.index(['workspace_id', 'reason', 'id'], 'suppressions_by_reason');
	});

	await create('topics', table => {
		key(table, 'id');
		text(table, 'workspace_id', 'code', 'name', 'created_at');
		belongs(table, 'workspace_id', 'workspaces');
		table.unique(['workspace_id', 'code'], {indexName: 'topics_by_code'});
		table.index(['workspace_id', 'id'], 'topics_by_workspace');
	});

	await create('topic_optouts', table => {
		text(table, 'workspace_id', 'code', 'address_key', 'address', 'source', 'created_at');
		belongs(table, 'workspace_id', 'workspaces');
		table.primary(['workspace_id', 'address_key', 'code']);
		table.index(['workspace_id', 'code', 'address_key'], 'topic_optouts_by_code');
	});

	await create('contacts', table => {
		key(table, 'id');
		text(table, 'workspace_id', 'address', 'address_key', 'locale?', 'timezone?', 'created_at', 'updated_at');
		belongs(table, 'workspace_id', 'workspaces');
		table.unique(['workspace_id', 'address_key'], {indexName: 'contacts_by_address'});
		table.index(['workspace_id', 'id'], 'contacts_by_workspace');
	});

	await create('address_health', table => {
		text(table, 'workspace_id', 'address_key');
		integer(table, 'soft_messages');
		text(table, 'soft_since?', 'last_message_id?', 'updated_at');
		belongs(table, 'workspace_id', 'workspaces');
		table.primary(['workspace_id', 'address_key']);
	});

	// Figures: usage, quota, reputation, idempotency.

	await create('idempotency_keys', table => {
		text(table, 'workspace_id', 'mode', 'key', 'fingerprint', 'response', 'message_id', 'created_at');
		belongs(table, 'workspace_id', 'workspaces');
		table.primary(['workspace_id', 'mode', 'key']);
		table.index(['created_at'], 'idempotency_keys_by_age');
	});

	await create('usage_months', table => {
		text(table, 'workspace_id', 'month');
		integer(table, 'accepted', 'test');
		belongs(table, 'workspace_id', 'workspaces');
		table.primary(['workspace_id', 'month']);
	});

	await create('usage_days', table => {
		text(table, 'workspace_id', 'day', 'status');
		integer(table, 'n');
		belongs(table, 'workspace_id', 'workspaces');
		table.primary(['workspace_id', 'day', 'status']);
	});

	await create('usage_hours', table => {
		/** `hour`: UTC, as `2026-11-05T13`. */
		text(table, 'workspace_id', 'hour', 'status');
		integer(table, 'n');
		belongs(table, 'workspace_id', 'workspaces');
		table.primary(['workspace_id', 'hour', 'status']);
		table.index(['hour'], 'usage_hours_by_age');
	});

	await create('reputation_hours', table => {
		text(table, 'workspace_id', 'hour');
		integer(table, 'attempted', 'hard', 'delivered', 'complained');
		belongs(table, 'workspace_id', 'workspaces');
		table.primary(['workspace_id', 'hour']);
		table.index(['hour'], 'reputation_hours_by_age');
	});

	// Delivery: provider state, suspended destinations, TLS.

	await create('sites', table => {
		key(table, 'site');
		text(table, 'suspended_until?', 'reason?');
		integer(table, 'step', 'window');
		text(table, 'broken_tls_until?', 'updated_at', 'provider?', 'waits_for?', 'slow_until?');
		integer(table, 'slow_per_minute?', 'slow_connections?', 'mails_per_session?');
		text(table, 'resumed_at?');
	});

	await createClustered('suspensions', table => {
		text(table, 'destination', 'reason', 'created_at');
		table.primary(['destination']);
	});

	/** What destination queues are waiting for. A daemon rewrites its own rows when it starts. */
	await createClustered('lane_waits', table => {
		text(table, 'destination', 'workspace_id', 'node', 'site', 'waits_for', 'detail', 'until?', 'updated_at');
		table.primary(['destination', 'workspace_id', 'node']);
	});

	await create('mta_sts', table => {
		key(table, 'domain');
		text(table, 'policy_id', 'mode', 'mx', 'fetched_at', 'expires_at');
	});

	await create('warmup_days', table => {
		text(table, 'source', 'provider', 'day');
		integer(table, 'n');
		table.primary(['source', 'provider', 'day']);
	});

	await createClustered('tls_days', table => {
		text(table, 'day', 'domain', 'policy', 'host', 'result');
		integer(table, 'n');
		table.primary(['day', 'domain', 'policy', 'host', 'result']);
	});

	// Incoming mail and the reports in it.

	await create('inbound', table => {
		/**
		 * SHA-256 of the message and its recipients, so that a message is stored once. `digest` is of the message
		 * alone.
		 */
		key(table, 'id');
		/**
		 * `node`: the daemon that accepted the message and must read it, or null for any. `rcpt_to`: a JSON array of
		 * addresses.
		 */
		text(table, 'digest', 'source', 'node?', 'mail_from?', 'rcpt_to');
		/** Empty after reading, unless the message is `kept`. */
		bytes(table, 'raw');
		/** The size of the message in octets. */
		integer(table, 'size');
		/**
		 * `kept`: why the message is retained: `unmatched`, `unread`, `operator`. `reading`: kind and reports as JSON.
		 */
		text(table, 'received_at', 'read_at?', 'kept?', 'reading?', 'fault?');
		table.index(['received_at'], 'inbound_by_age');
		table.index(['digest'], 'inbound_by_digest');
	});
	await partialIndex('inbound_unread', 'inbound (received_at)', 'read_at is null');
	// A covering index for finding the oldest messages beyond the limits, because the rows are large.
	await partialIndex('inbound_kept', 'inbound (received_at, id, size, kept)', 'kept is not null');

	await create('reports', table => {
		key(table, 'id');
		text(table, 'workspace_id?', 'message_id?', 'recipient_id?', 'inbound_sha256?');
		text(table, 'kind', 'category?', 'rule?', 'matched?', 'detail?', 'created_at');
		belongsByDay(table, 'message_id', 'messages');
		table.index(['message_id', 'id'], 'reports_by_message');
	});
	await partialIndex('reports_unmatched', 'reports (id)', 'recipient_id is null');
	const whole = 'recipient_id is not null and inbound_sha256 is not null';
	await partialIndex('reports_once', 'reports (recipient_id, inbound_sha256)', whole, unique);

	await create('mailbox_checkpoints', table => {
		key(table, 'mailbox');
		text(table, 'position', 'updated_at');
	});

	// Webhooks.

	await create('webhook_endpoints', table => {
		key(table, 'id');
		text(table, 'workspace_id', 'url', 'events', 'secret', 'disabled_at?', 'failing_since?', 'created_at');
		/** A deleted endpoint stops at once. Its rows, which may be many, are removed step by step. */
		text(table, 'deleted_at?');
		/** `test`: created by a test key, and gets only events of test messages. `live`: gets all events. */
		table.specificType('mode', types.text).notNullable().defaultTo('live');
		/** The previous secret also signs until `previous_until`. */
		text(table, 'previous_secret?', 'previous_until?');
		belongs(table, 'workspace_id', 'workspaces');
		table.index(['workspace_id', 'id'], 'webhook_endpoints_by_workspace');
	});

	await createByDay('webhook_deliveries', 'id', table => {
		key(table, 'id');
		text(table, 'workspace_id', 'endpoint_id', 'message_id?', 'event_id?', 'event_type');
		bytes(table, 'body');
		text(table, 'state');
		integer(table, 'attempts', 'generation');
		text(table, 'last_attempt_at?', 'created_at');
		belongsByDay(table, 'endpoint_id', 'webhook_endpoints');
		table.index(['endpoint_id', 'id'], 'webhook_deliveries_by_endpoint');
		table.index(['message_id'], 'webhook_deliveries_by_message');
		table.index(['endpoint_id', 'state', 'id'], 'webhook_deliveries_by_state');
	});

	await createByDay('webhook_attempts', 'delivery_id', table => {
		text(table, 'delivery_id');
		integer(table, 'generation', 'n');
		text(table, 'at');
		integer(table, 'status?');
		text(table, 'error?');
		integer(table, 'ms');
		/** The beginning of a rejecting endpoint's response. */
		text(table, 'answer?');
		belongsByDay(table, 'delivery_id', 'webhook_deliveries');
		table.primary(['delivery_id', 'generation', 'n']);
	});

	/** Deliveries waiting to be posted. `generation`: the number of replays. `claimed_by`: the boot id of a daemon. */
	await createClustered('webhook_queue', table => {
		text(table, 'delivery_id', 'endpoint_id', 'next_attempt_at');
		integer(table, 'generation');
		text(table, 'claimed_by?');
		belongs(table, 'endpoint_id', 'webhook_endpoints');
		table.primary(['delivery_id']);
	});
	const postDue = 'webhook_queue (endpoint_id, next_attempt_at, delivery_id)';
	await partialIndex('webhook_queue_due', postDue, 'claimed_by is null');
	await partialIndex('webhook_queue_claimed', 'webhook_queue (claimed_by)', 'claimed_by is not null');

	// Dashboard users, and the audit trail.

	await create('users', table => {
		key(table, 'id');
		/** `email` is in comparison form. `workspace_id` is null for all workspaces. */
		text(table, 'email', 'role', 'workspace_id?');
		/**
		 * `password_hash`: scrypt, with parameters and salt. `totp`: the secret for one-time codes, sealed for the row.
		 */
		text(table, 'password_hash?', 'totp?');
		/** The 30-second step of the last accepted code, so that no code is accepted twice. */
		integer(table, 'totp_step?');
		/** SHA-256 of the token in a single-use sign-in link. */
		text(table, 'link_hash?', 'link_expires_at?', 'created_at', 'last_login_at?');
		belongs(table, 'workspace_id', 'workspaces');
		table.unique(['email']);
		table.unique(['link_hash']);
		table.index(['workspace_id'], 'users_by_workspace');
	});

	await create('user_sessions', table => {
		key(table, 'id');
		/**
		 * `token_hash`: SHA-256 of the cookie's token. `workspace_id`: the workspace selected by a user of all, or
		 * null.
		 */
		text(table, 'user_id', 'token_hash', 'workspace_id?', 'created_at', 'seen_at');
		/** The last time that the user authenticated. */
		text(table, 'confirmed_at', 'address', 'agent');
		belongs(table, 'user_id', 'users');
		table.foreign('workspace_id').references('workspaces.id').onDelete('SET NULL');
		table.unique(['token_hash']);
		table.index(['user_id', 'id'], 'user_sessions_by_user');
		table.index(['workspace_id'], 'user_sessions_by_workspace');
		table.index(['seen_at'], 'user_sessions_by_seen');
	});

	await create('passkeys', table => {
		key(table, 'id');
		/** `credential_id`: assigned by the authenticator, in base64url. */
		text(table, 'user_id', 'credential_id');
		bytes(table, 'public_key');
		/** `counter`: an unsigned 32-bit number, which does not fit into an integer of PostgreSQL. */
		text(table, 'counter', 'name', 'created_at', 'used_at?');
		belongs(table, 'user_id', 'users');
		table.unique(['credential_id']);
		table.index(['user_id', 'id'], 'passkeys_by_user');
	});

	await create('audit', table => {
		key(table, 'id');
		text(table, 'at', 'workspace_id?', 'actor', 'action', 'target?', 'detail?', 'origin?', 'recipient?');
		table.index(['workspace_id', 'id'], 'audit_by_workspace');
	});
	await partialIndex('audit_by_recipient', 'audit (workspace_id, recipient)', 'recipient is not null');

	// The store itself: its keys, changes, and the nodes.

	await create('secret_keys', table => {
		/** Tokens and sealed secrets name their key by this id. */
		key(table, 'id', 'integer');
		/** Derived from the key. It verifies the key without revealing it. */
		text(table, 'proof', 'created_at');
		table.unique(['proof']);
	});

	await create('changes', table => {
		key(table, 'id', 'integer');
		integer(table, 'generation');
		if (!isPostgres) {
			table.specificType('event_position', 'integer').notNullable().defaultTo(knex.raw('0'));
		}
	});
	await knex('changes').insert({id: 1, generation: 1});

	await create('nodes', table => {
		key(table, 'id');
		text(table, 'host');
		integer(table, 'pid');
		text(table, 'started_at', 'seen_at', 'roles?', 'version?');
	});

	if (isPostgres) {
		/** The share of a key's rate window that the nodes have taken. */
		await create('rate_windows', table => {
			text(table, 'key_id', 'bucket', 'ends_at');
			/** `part`: the last part that was given out. */
			integer(table, 'given', 'part');
			belongs(table, 'key_id', 'api_keys');
			table.primary(['key_id', 'bucket']);
		});
		await knex.raw('alter table rate_windows set unlogged');

		await create('lease_terms', table => {
			key(table, 'node');
			/** In milliseconds of the server's clock. */
			table.bigInteger('until').notNullable();
			/** 1 if the node has all providers to itself, and no rows in `leases`. */
			integer(table, 'alone');
		});
		/** Each node's share of a provider's connections. */
		await create('leases', table => {
			text(table, 'site', 'node');
			integer(table, 'slots', 'wants', 'per_minute?');
			table.primary(['site', 'node']);
			table.index('node', 'leases_by_node');
		});

		for (const name of byDay) {
			await knex.raw(`create table ${name}_other partition of ${name} default`);
		}
		// These tables have rows that are updated in place.
		for (const name of ['leases', 'lease_terms', 'recipients_other']) {
			await knex.raw(`alter table ${name} set (fillfactor = 50)`);
		}
		// All rows of these tables come and go. After a long queue, few pages should have to be read.
		for (const name of ['queue', 'claims', 'webhook_queue']) {
			await knex.raw(`alter table ${name} set
				(autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0)`);
		}
	}
}

type Define = (table: Knex.CreateTableBuilder) => void;

function columnsOf(type: string): (table: Knex.CreateTableBuilder, ...names: readonly string[]) => void {
	return (table, ...names) => {
		for (const name of names) {
			const column = table.specificType(name.replace('?', ''), type);
			if (!name.endsWith('?')) {
				column.notNullable();
			}
		}
	};
}
