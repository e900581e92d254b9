import {readAnnounced} from './announced.ts';
import {readDomino} from './domino.ts';
import {readDragonfly} from './dragonfly.ts';
import {readExchange} from './exchange.ts';
import {readExim} from './exim.ts';
import type {Detector} from './finding.ts';
import {readGmail} from './gmail.ts';
import {readMessagingServer} from './messaging-server.ts';
import {readMfilter} from './mfilter.ts';
import {readPostOffice} from './post-office.ts';
import {readPostfix} from './postfix.ts';
import {readQmail} from './qmail.ts';
import {readSendmail} from './sendmail.ts';
import {readSentences} from './sentences.ts';
import {readZoho} from './zoho.ts';

/** The families of bounces in words, those first whose words are their own; the first that finds a recipient decides. */
export const detectors: readonly Detector[] = [
	readDragonfly,
	readMfilter,
	readZoho,
	readGmail,
	readExchange,
	readMessagingServer,
	readSendmail,
	readDomino,
	readPostfix,
	readPostOffice,
	readExim,
	readQmail,
	readAnnounced,
	readSentences,
];
