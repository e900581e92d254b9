acme_accounts.directory text C not null
acme_accounts.url text C not null
acme_accounts.secret text C not null
acme_accounts.created_at text C not null
acme_accounts.email text C
acme_challenges.token text C not null
acme_challenges.type text C not null
acme_challenges.name text C not null
acme_challenges.key_authorization text C not null
acme_challenges.expires_at text C not null
address_health.workspace_id text C not null
address_health.address_key text C not null
address_health.soft_messages integer not null
address_health.soft_since text C
address_health.last_message_id text C
address_health.updated_at text C not null
alert_addresses.workspace_id text C not null
alert_addresses.address_key text C not null
alert_addresses.confirmed_at text C not null
alert_allowances.name text C not null
alert_allowances.slot integer not null
alert_allowances.used_at text C not null
alert_messages.id text C not null
alert_messages.alert_id text C not null
alert_messages.message text C not null
alert_messages.due_at text C not null
alert_messages.attempts integer not null
alerts.id text C not null
alerts.workspace_id text C
alerts.way text C not null
alerts.target text C not null
alerts.secret text C
alerts.sender text C
alerts.kinds text C
alerts.muted_until text C
alerts.digest_at text C not null
alerts.sent_at text C
alerts.error text C
alerts.created_at text C not null
api_keys.id text C not null
api_keys.workspace_id text C not null
api_keys.name text C not null
api_keys.mode text C not null
api_keys.hash text C not null
api_keys.hint text C not null
api_keys.scopes text C not null
api_keys.rate_limit text C
api_keys.expires_at text C
api_keys.revoked_at text C
api_keys.last_used_at text C
api_keys.created_at text C not null
attachments.message_id text C not null
attachments.position integer not null
attachments.filename text C not null
attachments.content_type text C not null
attachments.content bytea not null
attachments.content_id text C
attachments_other.message_id text C not null
attachments_other.position integer not null
attachments_other.filename text C not null
attachments_other.content_type text C not null
attachments_other.content bytea not null
attachments_other.content_id text C
attempts.recipient_id text C not null
attempts.n integer not null
attempts.position integer not null
attempts.at text C not null
attempts.host text C
attempts.ip text C
attempts.tls text C
attempts.phase text C not null
attempts.code integer
attempts.enhanced text C
attempts.reply text C not null
attempts.ms integer not null
attempts.dialogue text C
attempts.provider_id text C
attempts_other.recipient_id text C not null
attempts_other.n integer not null
attempts_other.position integer not null
attempts_other.at text C not null
attempts_other.host text C
attempts_other.ip text C
attempts_other.tls text C
attempts_other.phase text C not null
attempts_other.code integer
attempts_other.enhanced text C
attempts_other.reply text C not null
attempts_other.ms integer not null
attempts_other.dialogue text C
attempts_other.provider_id text C
audit.id text C not null
audit.at text C not null
audit.workspace_id text C
audit.actor text C not null
audit.action text C not null
audit.target text C
audit.detail text C
audit.origin text C
audit.recipient text C
blocklistings.source text C not null
blocklistings.zone text C not null
blocklistings.name text C not null
blocklistings.delist text C not null
blocklistings.state text C not null
blocklistings.answer text C
blocklistings.reason text C
blocklistings.since text C not null
blocklistings.checked_at text C
blocklistings.asked_at text C not null
certificates.name text C not null
certificates.chain text C
certificates.secret text C
certificates.not_before text C
certificates.not_after text C
certificates.issuer text C
certificates.window_start text C
certificates.window_end text C
certificates.next_try_at text C not null
certificates.taken_until text C
certificates.tries integer not null
certificates.fault text C
certificates.wanted_at text C
certificates.unused text C
certificates.updated_at text C not null
certificates.directory text C
certificates.tried_directory text C
changes.id integer not null
changes.generation integer not null
claims.recipient_id text C not null
claims.claimed_by text C not null
claims.attempts integer not null
claims.until text C not null
claims.queued text C
conditions.kind text C not null
conditions.subject text C not null
conditions.workspace_id text C
conditions.detail text C not null
conditions.fix text C not null
conditions.began_at text C not null
conditions.seen_at text C not null
conditions.announced_at text C
conditions.ended_at text C
conditions.rings integer not null
contacts.id text C not null
contacts.workspace_id text C not null
contacts.address text C not null
contacts.address_key text C not null
contacts.locale text C
contacts.timezone text C
contacts.created_at text C not null
contacts.updated_at text C not null
dkim_keys.id text C not null
dkim_keys.domain_id text C not null
dkim_keys.selector text C not null
dkim_keys.algorithm text C not null
dkim_keys.public_key text C not null
dkim_keys.secret text C not null
dkim_keys.active_from text C not null
dkim_keys.retired_at text C
dkim_keys.created_at text C not null
dkim_keys.pending_at text C
dkim_keys.seen_at text C
dmarc_days.domain_id text C not null
dmarc_days.day text C not null
dmarc_days.ip text C not null
dmarc_days.dkim integer not null
dmarc_days.spf integer not null
dmarc_days.disposition text C not null
dmarc_days.why text C not null
dmarc_days.n bigint not null
dmarc_days.signed bigint not null default '0'::bigint
dmarc_reports.domain_id text C not null
dmarc_reports.begin_at text C not null
dmarc_reports.end_at text C not null
dmarc_reports.org text C not null
dmarc_reports.report_id text C not null
dmarc_reports.received_at text C not null
dmarc_reports.signed_by text C
dmarc_reports.cut integer not null
dmarc_reports.proven integer not null default 0
dmarc_reports.group_count integer not null default 0
dmarc_reports.counts text C
domains.id text C not null
domains.workspace_id text C not null
domains.name text C not null
domains.ownership_token text C not null
domains.return_path_domain text C
domains.state text C not null
domains.state_at text C not null
domains.verified_at text C
domains.checked_at text C
domains.failures integer not null default 0
domains.created_at text C not null
domains.return_path_at text C
domains.link_host text C
domains.links_ok_at text C
domains.first_verified_at text C
engagement.recipient_id text C not null
engagement.kind text C not null
engagement.url text C not null
engagement.n integer not null
engagement.machine_n integer not null
engagement.first_at text C not null
engagement.last_at text C not null
engagement_other.recipient_id text C not null
engagement_other.kind text C not null
engagement_other.url text C not null
engagement_other.n integer not null
engagement_other.machine_n integer not null
engagement_other.first_at text C not null
engagement_other.last_at text C not null
erasures.workspace_id text C not null
erasures.address_key text C not null
erasures.below text C not null
erasures.created_at text C not null
events.id text C not null
events.message_id text C not null
events.recipient_id text C
events.type text C not null
events.occurred_at text C not null
events.recorded_at text C not null
events.detail text C
events.position bigint default nextval('event_positions'::regclass)
events.earlier text C
events_other.id text C not null
events_other.message_id text C not null
events_other.recipient_id text C
events_other.type text C not null
events_other.occurred_at text C not null
events_other.recorded_at text C not null
events_other.detail text C
events_other.position bigint default nextval('event_positions'::regclass)
events_other.earlier text C
first_starts.workspace_id text C not null
first_starts.begun_at text C not null
idempotency_keys.workspace_id text C not null
idempotency_keys.mode text C not null
idempotency_keys.key text C not null
idempotency_keys.fingerprint text C not null
idempotency_keys.response text C not null
idempotency_keys.message_id text C not null
idempotency_keys.created_at text C not null
idempotency_keys.others text C
inbound.id text C not null
inbound.digest text C not null
inbound.source text C not null
inbound.node text C
inbound.mail_from text C
inbound.rcpt_to text C not null
inbound.raw bytea not null
inbound.size integer not null
inbound.received_at text C not null
inbound.read_at text C
inbound.kept text C
inbound.reading text C
inbound.fault text C
inbound.client text C
inbound.helo text C
inbound.precedence integer not null default 2
inbound.turn text C not null default 'unknown'::text
inbound.begun integer not null default 0
inbound.workspace_id text C
inbound_addresses.id text C not null
inbound_addresses.workspace_id text C not null
inbound_addresses.address text C not null
inbound_addresses.created_at text C not null
lane_waits.destination text C not null
lane_waits.workspace_id text C not null
lane_waits.node text C not null
lane_waits.site text C not null
lane_waits.waits_for text C not null
lane_waits.detail text C not null
lane_waits.until text C
lane_waits.updated_at text C not null
layout_uses.workspace_id text C not null
layout_uses.kind text C not null
layout_uses.name text C not null
layout_uses.uses text C not null
layout_uses.uses_at text C not null
layouts.workspace_id text C not null
layouts.kind text C not null
layouts.name text C not null
layouts.files text C not null
layouts.updated_at text C not null
lease_terms.node text C not null
lease_terms.until bigint not null
lease_terms.alone integer not null
lease_terms.knows text C
leases.site text C not null
leases.node text C not null
leases.slots integer not null
leases.wants integer not null
leases.per_minute integer
mailbox_checkpoints.mailbox text C not null
mailbox_checkpoints.position text C not null
mailbox_checkpoints.updated_at text C not null
mailbox_checkpoints.skipped integer not null default 0
mailbox_checkpoints.skipped_at text C
mailbox_checkpoints.skip_reason text C
message_terms.workspace_id text C not null
message_terms.term text C not null
message_terms.message_id text C not null
message_terms.members text C
message_terms_other.workspace_id text C not null
message_terms_other.term text C not null
message_terms_other.message_id text C not null
message_terms_other.members text C
messages.id text C not null
messages.workspace_id text C not null
messages.mode text C not null
messages.from_address text C not null
messages.from_key text C not null
messages.to_address text C not null
messages.to_key text C not null
messages.reply_to text C
messages.cc text C
messages.template_id text C not null
messages.version_id text C not null
messages.data text C
messages.metadata text C
messages.tags text C
messages.topic_id text C
messages.topic_code text C
messages.locale text C
messages.timezone text C
messages.tracking text C
messages.attachments integer not null
messages.resent_from text C
messages.created_at text C not null
messages.erased_at text C
messages.position bigint default nextval('event_positions'::regclass)
messages.extras text C
messages.sealed text C
messages_other.id text C not null
messages_other.workspace_id text C not null
messages_other.mode text C not null
messages_other.from_address text C not null
messages_other.from_key text C not null
messages_other.to_address text C not null
messages_other.to_key text C not null
messages_other.reply_to text C
messages_other.cc text C
messages_other.template_id text C not null
messages_other.version_id text C not null
messages_other.data text C
messages_other.metadata text C
messages_other.tags text C
messages_other.topic_id text C
messages_other.topic_code text C
messages_other.locale text C
messages_other.timezone text C
messages_other.tracking text C
messages_other.attachments integer not null
messages_other.resent_from text C
messages_other.created_at text C not null
messages_other.erased_at text C
messages_other.position bigint default nextval('event_positions'::regclass)
messages_other.extras text C
messages_other.sealed text C
migrations.name text not null
migrations.applied_at text not null
migrations.effect text
mta_sts.domain text C not null
mta_sts.policy_id text C not null
mta_sts.mode text C not null
mta_sts.mx text C not null
mta_sts.fetched_at text C not null
mta_sts.expires_at text C not null
nodes.id text C not null
nodes.host text C not null
nodes.pid integer not null
nodes.started_at text C not null
nodes.seen_at text C not null
nodes.roles text C
nodes.version text C
passkeys.id text C not null
passkeys.user_id text C not null
passkeys.credential_id text C not null
passkeys.public_key bytea not null
passkeys.counter text C not null
passkeys.name text C not null
passkeys.created_at text C not null
passkeys.used_at text C
queue.recipient_id text C not null
queue.workspace_id text C not null
queue.destination text C not null
queue.next_attempt_at text C not null
queue.held_at text C
queue.attempts integer not null default 0
queue.send_at text C
queue.expires_at text C
queue.scheduled_message text C
queue.priority integer not null default 0
rate_windows.key_id text C not null
rate_windows.bucket text C not null
rate_windows.ends_at text C not null
rate_windows.given integer not null
rate_windows.part integer not null
received.id text C not null
received.workspace_id text C not null
received.inbound_id text C not null
received.summary text C not null
received.content text C not null
received.received_at text C not null
received.in_reply_to text C
received.fault text C
received.size integer not null
received.raw bytea not null
received_files.received_id text C not null
received_files.n integer not null
received_files.content bytea not null
received_terms.workspace_id text C not null
received_terms.term text C not null
received_terms.received_id text C not null
recipients.id text C not null
recipients.workspace_id text C not null
recipients.message_id text C not null
recipients.address text C not null
recipients.address_key text C not null
recipients.role text C not null
recipients.destination text C not null
recipients.state text C not null
recipients.state_at text C not null
recipients.subject text C
recipients.attempts integer not null
recipients.sent_at text C
recipients.last_category text C
recipients.last_reply text C
recipients.crashes integer not null
recipients.links integer
recipients_other.id text C not null
recipients_other.workspace_id text C not null
recipients_other.message_id text C not null
recipients_other.address text C not null
recipients_other.address_key text C not null
recipients_other.role text C not null
recipients_other.destination text C not null
recipients_other.state text C not null
recipients_other.state_at text C not null
recipients_other.subject text C
recipients_other.attempts integer not null
recipients_other.sent_at text C
recipients_other.last_category text C
recipients_other.last_reply text C
recipients_other.crashes integer not null
recipients_other.links integer
reports.id text C not null
reports.workspace_id text C
reports.message_id text C
reports.recipient_id text C
reports.inbound_sha256 text C
reports.kind text C not null
reports.category text C
reports.rule text C
reports.matched text C
reports.detail text C
reports.created_at text C not null
reputation_hours.workspace_id text C not null
reputation_hours.hour text C not null
reputation_hours.attempted integer not null
reputation_hours.hard integer not null
reputation_hours.delivered integer not null
reputation_hours.complained integer not null
secret_keys.id integer not null
secret_keys.proof text C not null
secret_keys.created_at text C not null
senders.id text C not null
senders.workspace_id text C not null
senders.domain_id text C not null
senders.address text C not null
senders.address_key text C not null
senders.name text C
senders.verified_at text C
senders.disabled_at text C
senders.created_at text C not null
sites.site text C not null
sites.suspended_until text C
sites.reason text C
sites.step integer not null
sites.window integer not null
sites.broken_tls_until text C
sites.updated_at text C not null
sites.provider text C
sites.waits_for text C
sites.slow_until text C
sites.slow_per_minute integer
sites.slow_connections integer
sites.mails_per_session integer
sites.resumed_at text C
sites.advice text C
sites.slow_reason text C
smarthosts.id text C not null
smarthosts.workspace_id text C
smarthosts.provider text C not null
smarthosts.token_hash text C not null
smarthosts.secret text C
smarthosts.topic text C
smarthosts.takes text C not null
smarthosts.last_event_at text C
smarthosts.created_at text C not null
smarthosts.used_at text C
smarthosts.unreported_since text C
suppressions.id text C not null
suppressions.workspace_id text C not null
suppressions.address text C not null
suppressions.address_key text C not null
suppressions.reason text C not null
suppressions.source text C not null
suppressions.created_at text C not null
suppressions.mode text C not null default 'live'::text
suspensions.destination text C not null
suspensions.reason text C not null
suspensions.created_at text C not null
template_variants.version_id text C not null
template_variants.position integer not null
template_variants.locale text C
template_variants.subject text C not null
template_variants.kind text C not null
template_variants.source text C not null
template_variants.text_source text C
template_variants.html text C not null
template_variants.text text C
template_variants.own_source text C
template_variants.own_text_source text C
template_versions.id text C not null
template_versions.template_id text C not null
template_versions.version integer not null
template_versions.fingerprint text C not null
template_versions.created_at text C not null
template_versions.sample text C
template_versions.layout text C
templates.id text C not null
templates.workspace_id text C not null
templates.name text C not null
templates.latest_version integer
templates.created_at text C not null
templates.updated_at text C not null
templates.deleted_at text C
templates.public_id text C not null default ''::text
templates.priority text C
templates.topic_code text C
templates.sensitive text C
templates.uses text C
templates.uses_version integer
tls_days.day text C not null
tls_days.domain text C not null
tls_days.policy text C not null
tls_days.host text C not null
tls_days.result text C not null
tls_days.n integer not null
tls_report_days.day text C not null
tls_report_days.domain text C not null
tls_report_days.policy text C not null
tls_report_days.result text C not null
tls_report_days.n bigint not null
tls_report_recipients.day text C not null
tls_report_recipients.address text C not null
tls_report_recipients.reports integer not null
tls_reports.domain text C not null
tls_reports.begin_at text C not null
tls_reports.end_at text C not null
tls_reports.org text C not null
tls_reports.report_id text C not null
tls_reports.signed_by text C not null
tls_reports.received_at text C not null
tls_reports.failures text C not null
tls_reports.cut integer not null
tls_reports_sent.day text C not null
tls_reports_sent.domain text C not null
tls_reports_sent.due_at text C not null
tls_reports_sent.attempts integer not null
tls_reports_sent.sent_at text C
tls_reports_sent.error text C
topic_optouts.workspace_id text C not null
topic_optouts.code text C not null
topic_optouts.address_key text C not null
topic_optouts.address text C not null
topic_optouts.source text C not null
topic_optouts.created_at text C not null
topic_optouts.until text C
topics.id text C not null
topics.workspace_id text C not null
topics.code text C not null
topics.name text C not null
topics.created_at text C not null
topics.priority text C
topics.public_at text C
topics.required_at text C
topics.description text C
usage_days.workspace_id text C not null
usage_days.day text C not null
usage_days.status text C not null
usage_days.n integer not null
usage_hours.workspace_id text C not null
usage_hours.hour text C not null
usage_hours.status text C not null
usage_hours.n integer not null
usage_months.workspace_id text C not null
usage_months.month text C not null
usage_months.accepted integer not null
usage_months.test integer not null
user_sessions.id text C not null
user_sessions.user_id text C not null
user_sessions.token_hash text C not null
user_sessions.workspace_id text C
user_sessions.created_at text C not null
user_sessions.seen_at text C not null
user_sessions.confirmed_at text C not null
user_sessions.address text C not null
user_sessions.agent text C not null
users.id text C not null
users.email text C not null
users.role text C not null
users.workspace_id text C
users.password_hash text C
users.totp text C
users.totp_step integer
users.link_hash text C
users.link_expires_at text C
users.created_at text C not null
users.last_login_at text C
users.vouched_at text C
warmup_days.source text C not null
warmup_days.provider text C not null
warmup_days.day text C not null
warmup_days.n integer not null
webhook_attempts.delivery_id text C not null
webhook_attempts.generation integer not null
webhook_attempts.n integer not null
webhook_attempts.at text C not null
webhook_attempts.status integer
webhook_attempts.error text C
webhook_attempts.ms integer not null
webhook_attempts.answer text C
webhook_attempts_other.delivery_id text C not null
webhook_attempts_other.generation integer not null
webhook_attempts_other.n integer not null
webhook_attempts_other.at text C not null
webhook_attempts_other.status integer
webhook_attempts_other.error text C
webhook_attempts_other.ms integer not null
webhook_attempts_other.answer text C
webhook_deliveries.id text C not null
webhook_deliveries.workspace_id text C not null
webhook_deliveries.endpoint_id text C not null
webhook_deliveries.message_id text C
webhook_deliveries.event_id text C
webhook_deliveries.event_type text C not null
webhook_deliveries.body bytea not null
webhook_deliveries.state text C not null
webhook_deliveries.attempts integer not null
webhook_deliveries.generation integer not null
webhook_deliveries.last_attempt_at text C
webhook_deliveries.created_at text C not null
webhook_deliveries_other.id text C not null
webhook_deliveries_other.workspace_id text C not null
webhook_deliveries_other.endpoint_id text C not null
webhook_deliveries_other.message_id text C
webhook_deliveries_other.event_id text C
webhook_deliveries_other.event_type text C not null
webhook_deliveries_other.body bytea not null
webhook_deliveries_other.state text C not null
webhook_deliveries_other.attempts integer not null
webhook_deliveries_other.generation integer not null
webhook_deliveries_other.last_attempt_at text C
webhook_deliveries_other.created_at text C not null
webhook_endpoints.id text C not null
webhook_endpoints.workspace_id text C not null
webhook_endpoints.url text C not null
webhook_endpoints.events text C not null
webhook_endpoints.secret text C not null
webhook_endpoints.disabled_at text C
webhook_endpoints.failing_since text C
webhook_endpoints.created_at text C not null
webhook_endpoints.deleted_at text C
webhook_endpoints.mode text C not null default 'live'::text
webhook_endpoints.previous_secret text C
webhook_endpoints.previous_until text C
webhook_endpoints.format text C
webhook_endpoints.retry text C
webhook_endpoints.disabled_reason text C
webhook_queue.delivery_id text C not null
webhook_queue.endpoint_id text C not null
webhook_queue.next_attempt_at text C not null
webhook_queue.generation integer not null
webhook_queue.claimed_by text C
workspaces.id text C not null
workspaces.name text C not null
workspaces.locale text C
workspaces.timezone text C
workspaces.monthly_quota integer
workspaces.track_opens_at text C
workspaces.track_clicks_at text C
workspaces.paused_at text C
workspaces.pause_reason text C
workspaces.reputation_since text C
workspaces.queue_lifetime_s integer
workspaces.branding text C
workspaces.created_at text C not null
workspaces.source_pool text C
workspaces.route text C
workspaces.reputation_warned_at text C
workspaces.paused_by text C
workspaces.default_topic text C
workspaces.retention_days integer
workspaces.content_days integer
workspaces.max_attachments integer
workspaces.max_attachment_bytes integer
workspaces.limits text C
workspaces.deleted_at text C
acme_accounts: PRIMARY KEY (directory)
acme_challenges: PRIMARY KEY (token)
address_health: FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
address_health: PRIMARY KEY (workspace_id, address_key)
alert_addresses: FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
alert_addresses: PRIMARY KEY (workspace_id, address_key)
alert_allowances: PRIMARY KEY (name, slot)
alert_messages: FOREIGN KEY (alert_id) REFERENCES alerts(id) ON DELETE CASCADE
alert_messages: PRIMARY KEY (id)
alerts: FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
alerts: PRIMARY KEY (id)
api_keys: FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
api_keys: PRIMARY KEY (id)
api_keys: UNIQUE (hash)
attachments: PRIMARY KEY (message_id, "position")
attachments_other: PRIMARY KEY (message_id, "position")
attempts: PRIMARY KEY (recipient_id, n, "position")
attempts_other: PRIMARY KEY (recipient_id, n, "position")
audit: PRIMARY KEY (id)
blocklistings: PRIMARY KEY (source, zone)
certificates: PRIMARY KEY (name)
changes: PRIMARY KEY (id)
claims: PRIMARY KEY (recipient_id)
conditions: FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
conditions: PRIMARY KEY (kind, subject)
contacts: FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
contacts: PRIMARY KEY (id)
contacts: UNIQUE (workspace_id, address_key)
dkim_keys: FOREIGN KEY (domain_id) REFERENCES domains(id) ON DELETE CASCADE
dkim_keys: PRIMARY KEY (id)
dkim_keys: UNIQUE (domain_id, selector)
dmarc_days: FOREIGN KEY (domain_id) REFERENCES domains(id) ON DELETE CASCADE
dmarc_days: PRIMARY KEY (domain_id, day, ip, dkim, spf, disposition, why)
dmarc_reports: FOREIGN KEY (domain_id) REFERENCES domains(id) ON DELETE CASCADE
domains: FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
domains: PRIMARY KEY (id)
domains: UNIQUE (workspace_id, name)
engagement: PRIMARY KEY (recipient_id, kind, url)
engagement_other: PRIMARY KEY (recipient_id, kind, url)
erasures: FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
erasures: PRIMARY KEY (workspace_id, address_key)
events: PRIMARY KEY (message_id, id)
events_other: PRIMARY KEY (message_id, id)
first_starts: FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
first_starts: PRIMARY KEY (workspace_id)
idempotency_keys: FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
idempotency_keys: PRIMARY KEY (workspace_id, mode, key)
inbound: PRIMARY KEY (id)
inbound_addresses: FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
inbound_addresses: PRIMARY KEY (id)
inbound_addresses: UNIQUE (address)
lane_waits: PRIMARY KEY (destination, workspace_id, node)
layout_uses: FOREIGN KEY (workspace_id, kind, name) REFERENCES layouts(workspace_id, kind, name) ON DELETE CASCADE
layout_uses: PRIMARY KEY (workspace_id, kind, name)
layouts: FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
layouts: PRIMARY KEY (workspace_id, kind, name)
lease_terms: PRIMARY KEY (node)
leases: PRIMARY KEY (site, node)
mailbox_checkpoints: PRIMARY KEY (mailbox)
message_terms: PRIMARY KEY (workspace_id, term, message_id)
message_terms_other: PRIMARY KEY (workspace_id, term, message_id)
messages: PRIMARY KEY (id)
messages_other: PRIMARY KEY (id)
migrations: PRIMARY KEY (name)
mta_sts: PRIMARY KEY (domain)
nodes: PRIMARY KEY (id)
passkeys: FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
passkeys: PRIMARY KEY (id)
passkeys: UNIQUE (credential_id)
queue: PRIMARY KEY (recipient_id)
rate_windows: FOREIGN KEY (key_id) REFERENCES api_keys(id) ON DELETE CASCADE
rate_windows: PRIMARY KEY (key_id, bucket)
received: FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
received: PRIMARY KEY (id)
received: UNIQUE (inbound_id, workspace_id)
received_files: FOREIGN KEY (received_id) REFERENCES received(id) ON DELETE CASCADE
received_files: PRIMARY KEY (received_id, n)
received_terms: FOREIGN KEY (received_id) REFERENCES received(id) ON DELETE CASCADE
received_terms: PRIMARY KEY (workspace_id, term, received_id)
recipients: PRIMARY KEY (id)
recipients_other: PRIMARY KEY (id)
reports: PRIMARY KEY (id)
reputation_hours: FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
reputation_hours: PRIMARY KEY (workspace_id, hour)
secret_keys: PRIMARY KEY (id)
secret_keys: UNIQUE (proof)
senders: FOREIGN KEY (domain_id) REFERENCES domains(id) ON DELETE CASCADE
senders: FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
senders: PRIMARY KEY (id)
senders: UNIQUE (workspace_id, address_key)
sites: PRIMARY KEY (site)
smarthosts: FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
smarthosts: PRIMARY KEY (id)
smarthosts: UNIQUE (token_hash)
suppressions: FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
suppressions: PRIMARY KEY (id)
suppressions: UNIQUE (workspace_id, address_key)
suspensions: PRIMARY KEY (destination)
template_variants: FOREIGN KEY (version_id) REFERENCES template_versions(id) ON DELETE CASCADE
template_variants: PRIMARY KEY (version_id, "position")
template_versions: FOREIGN KEY (template_id) REFERENCES templates(id) ON DELETE CASCADE
template_versions: PRIMARY KEY (id)
template_versions: UNIQUE (template_id, version)
templates: FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
templates: PRIMARY KEY (id)
tls_days: PRIMARY KEY (day, domain, policy, host, result)
tls_report_days: PRIMARY KEY (day, domain, policy, result)
tls_report_recipients: PRIMARY KEY (day, address)
tls_reports: PRIMARY KEY (domain, begin_at, end_at, org, report_id, signed_by)
tls_reports_sent: PRIMARY KEY (day, domain)
topic_optouts: FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
topic_optouts: PRIMARY KEY (workspace_id, address_key, code)
topics: FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
topics: PRIMARY KEY (id)
topics: UNIQUE (workspace_id, code)
usage_days: FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
usage_days: PRIMARY KEY (workspace_id, day, status)
usage_hours: FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
usage_hours: PRIMARY KEY (workspace_id, hour, status)
usage_months: FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
usage_months: PRIMARY KEY (workspace_id, month)
user_sessions: FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
user_sessions: FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE SET NULL
user_sessions: PRIMARY KEY (id)
user_sessions: UNIQUE (token_hash)
users: FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
users: PRIMARY KEY (id)
users: UNIQUE (email)
users: UNIQUE (link_hash)
warmup_days: PRIMARY KEY (source, provider, day)
webhook_attempts: PRIMARY KEY (delivery_id, generation, n)
webhook_attempts_other: PRIMARY KEY (delivery_id, generation, n)
webhook_deliveries: PRIMARY KEY (id)
webhook_deliveries_other: PRIMARY KEY (id)
webhook_endpoints: FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
webhook_endpoints: PRIMARY KEY (id)
webhook_queue: FOREIGN KEY (endpoint_id) REFERENCES webhook_endpoints(id) ON DELETE CASCADE
webhook_queue: PRIMARY KEY (delivery_id)
workspaces: PRIMARY KEY (id)
workspaces: UNIQUE (name)
CREATE UNIQUE INDEX acme_accounts_pkey ON public.acme_accounts USING btree (directory)
CREATE UNIQUE INDEX acme_challenges_pkey ON public.acme_challenges USING btree (token)
CREATE UNIQUE INDEX address_health_pkey ON public.address_health USING btree (workspace_id, address_key)
CREATE UNIQUE INDEX alert_addresses_pkey ON public.alert_addresses USING btree (workspace_id, address_key)
CREATE UNIQUE INDEX alert_allowances_pkey ON public.alert_allowances USING btree (name, slot)
CREATE INDEX alert_messages_by_alert ON public.alert_messages USING btree (alert_id)
CREATE UNIQUE INDEX alert_messages_pkey ON public.alert_messages USING btree (id)
CREATE INDEX alerts_by_workspace ON public.alerts USING btree (workspace_id, id)
CREATE UNIQUE INDEX alerts_pkey ON public.alerts USING btree (id)
CREATE INDEX api_keys_by_workspace ON public.api_keys USING btree (workspace_id, id)
CREATE UNIQUE INDEX api_keys_hash_unique ON public.api_keys USING btree (hash)
CREATE UNIQUE INDEX api_keys_pkey ON public.api_keys USING btree (id)
CREATE UNIQUE INDEX attachments_other_pkey ON public.attachments_other USING btree (message_id, "position")
CREATE UNIQUE INDEX attachments_pkey ON ONLY public.attachments USING btree (message_id, "position")
CREATE INDEX attempts_by_provider_id ON ONLY public.attempts USING btree (provider_id) WHERE (provider_id IS NOT NULL)
CREATE UNIQUE INDEX attempts_other_pkey ON public.attempts_other USING btree (recipient_id, n, "position")
CREATE INDEX attempts_other_provider_id_idx ON public.attempts_other USING btree (provider_id) WHERE (provider_id IS NOT NULL)
CREATE UNIQUE INDEX attempts_pkey ON ONLY public.attempts USING btree (recipient_id, n, "position")
CREATE INDEX audit_by_recipient ON public.audit USING btree (workspace_id, recipient) WHERE (recipient IS NOT NULL)
CREATE INDEX audit_by_workspace ON public.audit USING btree (workspace_id, id)
CREATE UNIQUE INDEX audit_pkey ON public.audit USING btree (id)
CREATE UNIQUE INDEX blocklistings_pkey ON public.blocklistings USING btree (source, zone)
CREATE UNIQUE INDEX certificates_pkey ON public.certificates USING btree (name)
CREATE UNIQUE INDEX changes_pkey ON public.changes USING btree (id)
CREATE UNIQUE INDEX claims_pkey ON public.claims USING btree (recipient_id)
CREATE INDEX conditions_by_workspace ON public.conditions USING btree (workspace_id)
CREATE UNIQUE INDEX conditions_pkey ON public.conditions USING btree (kind, subject)
CREATE UNIQUE INDEX contacts_by_address ON public.contacts USING btree (workspace_id, address_key)
CREATE INDEX contacts_by_workspace ON public.contacts USING btree (workspace_id, id)
CREATE UNIQUE INDEX contacts_pkey ON public.contacts USING btree (id)
CREATE UNIQUE INDEX dkim_keys_by_selector ON public.dkim_keys USING btree (domain_id, selector)
CREATE UNIQUE INDEX dkim_keys_pkey ON public.dkim_keys USING btree (id)
CREATE INDEX dmarc_days_by_day ON public.dmarc_days USING btree (day)
CREATE UNIQUE INDEX dmarc_days_pkey ON public.dmarc_days USING btree (domain_id, day, ip, dkim, spf, disposition, why)
CREATE INDEX dmarc_days_unproven ON public.dmarc_days USING btree (day) WHERE (n > signed)
CREATE INDEX dmarc_reports_by_begin ON public.dmarc_reports USING btree (begin_at)
CREATE UNIQUE INDEX dmarc_reports_key ON public.dmarc_reports USING btree (domain_id, begin_at, end_at, org, report_id, COALESCE(signed_by, ''::text))
CREATE INDEX dmarc_reports_unproven ON public.dmarc_reports USING btree (begin_at) WHERE (proven = 0)
CREATE UNIQUE INDEX domains_by_name ON public.domains USING btree (workspace_id, name)
CREATE INDEX domains_by_workspace ON public.domains USING btree (workspace_id, id)
CREATE UNIQUE INDEX domains_pkey ON public.domains USING btree (id)
CREATE UNIQUE INDEX engagement_other_pkey ON public.engagement_other USING btree (recipient_id, kind, url)
CREATE UNIQUE INDEX engagement_pkey ON ONLY public.engagement USING btree (recipient_id, kind, url)
CREATE UNIQUE INDEX erasures_pkey ON public.erasures USING btree (workspace_id, address_key)
CREATE INDEX events_by_position ON ONLY public.events USING btree ("position") WHERE ("position" IS NOT NULL)
CREATE UNIQUE INDEX events_other_pkey ON public.events_other USING btree (message_id, id)
CREATE INDEX events_other_position_idx ON public.events_other USING btree ("position") WHERE ("position" IS NOT NULL)
CREATE UNIQUE INDEX events_pkey ON ONLY public.events USING btree (message_id, id)
CREATE UNIQUE INDEX first_starts_pkey ON public.first_starts USING btree (workspace_id)
CREATE INDEX idempotency_keys_by_age ON public.idempotency_keys USING btree (created_at)
CREATE UNIQUE INDEX idempotency_keys_pkey ON public.idempotency_keys USING btree (workspace_id, mode, key)
CREATE UNIQUE INDEX inbound_addresses_address_unique ON public.inbound_addresses USING btree (address)
CREATE INDEX inbound_addresses_by_workspace ON public.inbound_addresses USING btree (workspace_id, id)
CREATE UNIQUE INDEX inbound_addresses_pkey ON public.inbound_addresses USING btree (id)
CREATE INDEX inbound_by_age ON public.inbound USING btree (received_at)
CREATE INDEX inbound_by_digest ON public.inbound USING btree (digest)
CREATE INDEX inbound_kept ON public.inbound USING btree (received_at, id, size, kept, workspace_id) WHERE (kept IS NOT NULL)
CREATE INDEX inbound_kept_of_workspace ON public.inbound USING btree (workspace_id, received_at, id, size, kept) WHERE ((kept IS NOT NULL) AND (workspace_id IS NOT NULL))
CREATE UNIQUE INDEX inbound_pkey ON public.inbound USING btree (id)
CREATE INDEX inbound_turns ON public.inbound USING btree (precedence, turn, received_at) WHERE (read_at IS NULL)
CREATE INDEX inbound_unread ON public.inbound USING btree (workspace_id, received_at) WHERE (read_at IS NULL)
CREATE UNIQUE INDEX lane_waits_pkey ON public.lane_waits USING btree (destination, workspace_id, node)
CREATE UNIQUE INDEX layout_uses_pkey ON public.layout_uses USING btree (workspace_id, kind, name)
CREATE INDEX layouts_listed ON public.layouts USING btree (workspace_id, kind, name, updated_at)
CREATE UNIQUE INDEX layouts_pkey ON public.layouts USING btree (workspace_id, kind, name)
CREATE UNIQUE INDEX lease_terms_pkey ON public.lease_terms USING btree (node)
CREATE INDEX leases_by_node ON public.leases USING btree (node)
CREATE UNIQUE INDEX leases_pkey ON public.leases USING btree (site, node)
CREATE UNIQUE INDEX mailbox_checkpoints_pkey ON public.mailbox_checkpoints USING btree (mailbox)
CREATE UNIQUE INDEX message_terms_other_pkey ON public.message_terms_other USING btree (workspace_id, term, message_id)
CREATE UNIQUE INDEX message_terms_pkey ON ONLY public.message_terms USING btree (workspace_id, term, message_id)
CREATE INDEX messages_by_position ON ONLY public.messages USING btree ("position") WHERE ("position" IS NOT NULL)
CREATE INDEX messages_by_recipient ON ONLY public.messages USING btree (workspace_id, to_key, id)
CREATE INDEX messages_by_sender ON ONLY public.messages USING btree (workspace_id, from_key, id)
CREATE INDEX messages_by_template ON ONLY public.messages USING btree (workspace_id, template_id, id)
CREATE INDEX messages_by_workspace ON ONLY public.messages USING btree (workspace_id, id)
CREATE INDEX messages_of_tests ON ONLY public.messages USING btree (workspace_id, id) WHERE (mode = 'test'::text)
CREATE INDEX messages_other_id_idx ON public.messages_other USING btree (id) WHERE (sealed IS NOT NULL)
CREATE UNIQUE INDEX messages_other_pkey ON public.messages_other USING btree (id)
CREATE INDEX messages_other_position_idx ON public.messages_other USING btree ("position") WHERE ("position" IS NOT NULL)
CREATE INDEX messages_other_workspace_id_from_key_id_idx ON public.messages_other USING btree (workspace_id, from_key, id)
CREATE INDEX messages_other_workspace_id_id_idx ON public.messages_other USING btree (workspace_id, id)
CREATE INDEX messages_other_workspace_id_id_idx1 ON public.messages_other USING btree (workspace_id, id) WHERE (mode = 'test'::text)
CREATE INDEX messages_other_workspace_id_template_id_id_idx ON public.messages_other USING btree (workspace_id, template_id, id)
CREATE INDEX messages_other_workspace_id_to_key_id_idx ON public.messages_other USING btree (workspace_id, to_key, id)
CREATE UNIQUE INDEX messages_pkey ON ONLY public.messages USING btree (id)
CREATE INDEX messages_sealed ON ONLY public.messages USING btree (id) WHERE (sealed IS NOT NULL)
CREATE UNIQUE INDEX migrations_pkey ON public.migrations USING btree (name)
CREATE UNIQUE INDEX mta_sts_pkey ON public.mta_sts USING btree (domain)
CREATE UNIQUE INDEX nodes_pkey ON public.nodes USING btree (id)
CREATE INDEX passkeys_by_user ON public.passkeys USING btree (user_id, id)
CREATE UNIQUE INDEX passkeys_credential_id_unique ON public.passkeys USING btree (credential_id)
CREATE UNIQUE INDEX passkeys_pkey ON public.passkeys USING btree (id)
CREATE INDEX queue_due ON public.queue USING btree (destination, workspace_id, priority, next_attempt_at, recipient_id) WHERE (held_at IS NULL)
CREATE INDEX queue_expiring ON public.queue USING btree (expires_at) WHERE (expires_at IS NOT NULL)
CREATE INDEX queue_held ON public.queue USING btree (destination, workspace_id) WHERE (held_at IS NOT NULL)
CREATE UNIQUE INDEX queue_pkey ON public.queue USING btree (recipient_id)
CREATE INDEX queue_scheduled ON public.queue USING btree (workspace_id, scheduled_message) WHERE (scheduled_message IS NOT NULL)
CREATE UNIQUE INDEX rate_windows_pkey ON public.rate_windows USING btree (key_id, bucket)
CREATE INDEX received_by_workspace ON public.received USING btree (workspace_id, id)
CREATE UNIQUE INDEX received_files_pkey ON public.received_files USING btree (received_id, n)
CREATE UNIQUE INDEX received_inbound_id_workspace_id_unique ON public.received USING btree (inbound_id, workspace_id)
CREATE UNIQUE INDEX received_pkey ON public.received USING btree (id)
CREATE INDEX received_terms_by_mail ON public.received_terms USING btree (received_id)
CREATE UNIQUE INDEX received_terms_pkey ON public.received_terms USING btree (workspace_id, term, received_id)
CREATE INDEX recipients_by_message ON ONLY public.recipients USING btree (message_id)
CREATE INDEX recipients_cc_by_address ON ONLY public.recipients USING btree (workspace_id, address_key) WHERE (role = 'cc'::text)
CREATE INDEX recipients_other_message_id_idx ON public.recipients_other USING btree (message_id)
CREATE UNIQUE INDEX recipients_other_pkey ON public.recipients_other USING btree (id)
CREATE INDEX recipients_other_workspace_id_address_key_idx ON public.recipients_other USING btree (workspace_id, address_key) WHERE (role = 'cc'::text)
CREATE UNIQUE INDEX recipients_pkey ON ONLY public.recipients USING btree (id)
CREATE INDEX reports_by_message ON public.reports USING btree (message_id, id)
CREATE UNIQUE INDEX reports_once ON public.reports USING btree (recipient_id, inbound_sha256) WHERE ((recipient_id IS NOT NULL) AND (inbound_sha256 IS NOT NULL))
CREATE UNIQUE INDEX reports_pkey ON public.reports USING btree (id)
CREATE INDEX reports_unmatched ON public.reports USING btree (id) WHERE (recipient_id IS NULL)
CREATE INDEX reputation_hours_by_age ON public.reputation_hours USING btree (hour)
CREATE UNIQUE INDEX reputation_hours_pkey ON public.reputation_hours USING btree (workspace_id, hour)
CREATE UNIQUE INDEX secret_keys_pkey ON public.secret_keys USING btree (id)
CREATE UNIQUE INDEX secret_keys_proof_unique ON public.secret_keys USING btree (proof)
CREATE UNIQUE INDEX senders_by_address ON public.senders USING btree (workspace_id, address_key)
CREATE INDEX senders_by_domain ON public.senders USING btree (domain_id)
CREATE INDEX senders_by_workspace ON public.senders USING btree (workspace_id, id)
CREATE UNIQUE INDEX senders_pkey ON public.senders USING btree (id)
CREATE UNIQUE INDEX sites_pkey ON public.sites USING btree (site)
CREATE INDEX sites_with_pauses ON public.sites USING btree (site) WHERE ((suspended_until IS NOT NULL) OR (slow_until IS NOT NULL) OR (mails_per_session IS NOT NULL))
CREATE INDEX smarthosts_by_workspace ON public.smarthosts USING btree (workspace_id, id)
CREATE UNIQUE INDEX smarthosts_pkey ON public.smarthosts USING btree (id)
CREATE UNIQUE INDEX smarthosts_token_hash_unique ON public.smarthosts USING btree (token_hash)
CREATE UNIQUE INDEX suppressions_by_address ON public.suppressions USING btree (workspace_id, address_key)
CREATE INDEX suppressions_by_reason ON public.suppressions USING btree (workspace_id, reason, id)
CREATE INDEX suppressions_by_workspace ON public.suppressions USING btree (workspace_id, id)
CREATE UNIQUE INDEX suppressions_pkey ON public.suppressions USING btree (id)
CREATE UNIQUE INDEX suspensions_pkey ON public.suspensions USING btree (destination)
CREATE UNIQUE INDEX template_variants_pkey ON public.template_variants USING btree (version_id, "position")
CREATE UNIQUE INDEX template_versions_by_number ON public.template_versions USING btree (template_id, version)
CREATE UNIQUE INDEX template_versions_pkey ON public.template_versions USING btree (id)
CREATE UNIQUE INDEX templates_by_name ON public.templates USING btree (workspace_id, name) WHERE (deleted_at IS NULL)
CREATE UNIQUE INDEX templates_by_public_id ON public.templates USING btree (workspace_id, public_id) WHERE (deleted_at IS NULL)
CREATE INDEX templates_by_workspace ON public.templates USING btree (workspace_id, id)
CREATE UNIQUE INDEX templates_pkey ON public.templates USING btree (id)
CREATE UNIQUE INDEX tls_days_pkey ON public.tls_days USING btree (day, domain, policy, host, result)
CREATE UNIQUE INDEX tls_report_days_pkey ON public.tls_report_days USING btree (day, domain, policy, result)
CREATE UNIQUE INDEX tls_report_recipients_pkey ON public.tls_report_recipients USING btree (day, address)
CREATE INDEX tls_reports_by_begin ON public.tls_reports USING btree (begin_at)
CREATE UNIQUE INDEX tls_reports_key ON public.tls_reports USING btree (domain, begin_at, end_at, org, report_id, signed_by)
CREATE UNIQUE INDEX tls_reports_sent_pkey ON public.tls_reports_sent USING btree (day, domain)
CREATE INDEX topic_optouts_by_code ON public.topic_optouts USING btree (workspace_id, code, address_key)
CREATE INDEX topic_optouts_ending ON public.topic_optouts USING btree (until) WHERE (until IS NOT NULL)
CREATE UNIQUE INDEX topic_optouts_pkey ON public.topic_optouts USING btree (workspace_id, address_key, code)
CREATE UNIQUE INDEX topics_by_code ON public.topics USING btree (workspace_id, code)
CREATE INDEX topics_by_workspace ON public.topics USING btree (workspace_id, id)
CREATE UNIQUE INDEX topics_pkey ON public.topics USING btree (id)
CREATE UNIQUE INDEX usage_days_pkey ON public.usage_days USING btree (workspace_id, day, status)
CREATE INDEX usage_hours_by_age ON public.usage_hours USING btree (hour)
CREATE UNIQUE INDEX usage_hours_pkey ON public.usage_hours USING btree (workspace_id, hour, status)
CREATE UNIQUE INDEX usage_months_pkey ON public.usage_months USING btree (workspace_id, month)
CREATE INDEX user_sessions_by_seen ON public.user_sessions USING btree (seen_at)
CREATE INDEX user_sessions_by_user ON public.user_sessions USING btree (user_id, id)
CREATE INDEX user_sessions_by_workspace ON public.user_sessions USING btree (workspace_id)
CREATE UNIQUE INDEX user_sessions_pkey ON public.user_sessions USING btree (id)
CREATE UNIQUE INDEX user_sessions_token_hash_unique ON public.user_sessions USING btree (token_hash)
CREATE INDEX users_by_workspace ON public.users USING btree (workspace_id)
CREATE UNIQUE INDEX users_email_unique ON public.users USING btree (email)
CREATE UNIQUE INDEX users_link_hash_unique ON public.users USING btree (link_hash)
CREATE UNIQUE INDEX users_pkey ON public.users USING btree (id)
CREATE UNIQUE INDEX warmup_days_pkey ON public.warmup_days USING btree (source, provider, day)
CREATE UNIQUE INDEX webhook_attempts_other_pkey ON public.webhook_attempts_other USING btree (delivery_id, generation, n)
CREATE UNIQUE INDEX webhook_attempts_pkey ON ONLY public.webhook_attempts USING btree (delivery_id, generation, n)
CREATE INDEX webhook_deliveries_by_endpoint ON ONLY public.webhook_deliveries USING btree (endpoint_id, id)
CREATE INDEX webhook_deliveries_by_message ON ONLY public.webhook_deliveries USING btree (message_id)
CREATE INDEX webhook_deliveries_by_state ON ONLY public.webhook_deliveries USING btree (endpoint_id, state, id)
CREATE INDEX webhook_deliveries_other_endpoint_id_id_idx ON public.webhook_deliveries_other USING btree (endpoint_id, id)
CREATE INDEX webhook_deliveries_other_endpoint_id_state_id_idx ON public.webhook_deliveries_other USING btree (endpoint_id, state, id)
CREATE INDEX webhook_deliveries_other_message_id_idx ON public.webhook_deliveries_other USING btree (message_id)
CREATE UNIQUE INDEX webhook_deliveries_other_pkey ON public.webhook_deliveries_other USING btree (id)
CREATE UNIQUE INDEX webhook_deliveries_pkey ON ONLY public.webhook_deliveries USING btree (id)
CREATE INDEX webhook_endpoints_by_workspace ON public.webhook_endpoints USING btree (workspace_id, id)
CREATE UNIQUE INDEX webhook_endpoints_pkey ON public.webhook_endpoints USING btree (id)
CREATE INDEX webhook_queue_claimed ON public.webhook_queue USING btree (claimed_by) WHERE (claimed_by IS NOT NULL)
CREATE INDEX webhook_queue_due ON public.webhook_queue USING btree (endpoint_id, next_attempt_at, delivery_id) WHERE (claimed_by IS NULL)
CREATE UNIQUE INDEX webhook_queue_pkey ON public.webhook_queue USING btree (delivery_id)
CREATE INDEX workspaces_deleted ON public.workspaces USING btree (id) WHERE (deleted_at IS NOT NULL)
CREATE UNIQUE INDEX workspaces_name_unique ON public.workspaces USING btree (name)
CREATE UNIQUE INDEX workspaces_pkey ON public.workspaces USING btree (id)
