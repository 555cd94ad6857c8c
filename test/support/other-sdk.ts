/** What an operator's auto-instrumentation does: registers an SDK before the process begins. For `node --import`. */

import { context, propagation, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';

const exporter = new OTLPTraceExporter({ url: `${process.env['OTHER_SDK_URL']}/v1/traces` });
const resource = resourceFromAttributes({ 'service.name': 'the other one' });
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
propagation.setGlobalPropagator(new W3CTraceContextPropagator());
trace.setGlobalTracerProvider(
  new TracerProvider({ resource, spanProcessors: [new BatchSpanProcessor({ exporter, scheduledDelayMillis: 50 })] }),
);
