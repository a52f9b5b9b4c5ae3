#!/usr/bin/env python3
"""Time the benchmark ladder (bench/README.md) on the peers that this machine has.

usage: peers.py [--device cuda|cpu] [--peers torch_eager,torch_graph,torch_compile,torch_compile_graph,jax,cupy,drjit] [--only a,b] [--out FILE]
Prints one JSON object a line: workload, peer, pipelined_us, latency_us, first_call_ms.
"""
import argparse, json, math, os, sys, time
os.environ.setdefault("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1")  # first_call_ms is a cold compile
import numpy as np

ap = argparse.ArgumentParser()
ap.add_argument("--device", default="cuda")
ap.add_argument("--peers", default="torch_eager,torch_graph,jax,cupy,torch_compile,torch_compile_graph")
ap.add_argument("--only", default="")
ap.add_argument("--out", default="")
ap.add_argument("--seconds", type=float, default=0.25)
ap.add_argument("--scale", type=float, default=1.0, help="fraction of the large sizes, for a small CPU")
A = ap.parse_args()
peers = A.peers.split(",")
only = set(filter(None, A.only.split(",")))
rng = np.random.default_rng(7)
f32 = np.float32
S = A.scale
def n1(n): return max(1024, int(n * S))
def r(*s): return rng.standard_normal(s, dtype=f32)
def u(*s): return rng.random(s, dtype=f32)

def side(n): return max(256, int(n * math.sqrt(S)) // 64 * 64)

# Each workload: inputs (host numpy), function over a namespace adaptor, options.
def inputs():
    N = n1(1 << 26); B = n1(1 << 24); H = side(8192); R = side(16384); C = side(4096); G = side(4096)
    bs = [u(B) * 90 + 10, u(B) * 90 + 10, u(B) * 2 + 0.1, u(B) * 0.05 + 0.01, u(B) * 0.4 + 0.1]
    w = lambda o, i: r(o, i) * f32(1 / math.sqrt(i))
    return {
        "add_50k": [r(50000), r(50000)],
        "add_50k_host": [r(50000), r(50000)],
        "conv_seed": [r(100, 3, 32, 32), r(16, 3, 3, 3), r(16)],
        "conv_seed_host": [r(100, 3, 32, 32), r(16, 3, 3, 3), r(16)],
        "saxpy_chain": [r(N)],
        "black_scholes": bs,
        "softmax": [r(H, H)],
        "layernorm": [r(R, C), r(C), r(C)],
        "rmsnorm_bf16": [r(R, C), r(C)],
        "sum_all": [r(N)],
        "colsum": [r(R, C)],
        "transpose_add": [r(H, H), r(H, H)],
        "tiny_chain": [r(1024)],
        "branches": [r(256, 256)] + [w(256, 256) for _ in range(8)],
        "mlp": [r(256, 784), w(784, 1024), r(1024), w(1024, 1024), r(1024), w(1024, 10), r(10)],
        "gemm_gelu_bf16": [r(G, G), w(G, G), r(G)],
        "attention_bf16": [r(8, 12, 1024, 64), r(8, 12, 1024, 64), r(8, 12, 1024, 64)],
        "resnet_block": [r(32, 64, 56, 56), r(64, 64, 3, 3) * f32(.05), r(64), r(64), r(64, 64, 3, 3) * f32(.05), r(64), r(64)],
        "jacobi": [np.pad(u(1022, 1022), 1)],
        "jacobi_while": [np.pad(np.ones((1022, 1022), f32), 1)],
    }
BF16 = {"rmsnorm_bf16", "gemm_gelu_bf16", "attention_bf16"}
TF32 = {"mlp", "resnet_block"}
HOST = {"add_50k_host", "conv_seed_host"}

def measure(call, sync):
    t = time.perf_counter(); call(); sync(); first = (time.perf_counter() - t) * 1e3
    for _ in range(3): call(); sync()
    t = time.perf_counter(); call(); sync(); one = time.perf_counter() - t
    k = max(1, min(2000, int(A.seconds / 5 / max(one, 1e-6))))
    pip, lat = [], []
    for _ in range(5):
        t = time.perf_counter()
        for _ in range(k): call()
        sync(); pip.append((time.perf_counter() - t) / k * 1e6)
    for _ in range(max(5, min(200, int(A.seconds / max(one, 1e-6))))):
        t = time.perf_counter(); call(); sync(); lat.append((time.perf_counter() - t) * 1e6)
    return float(np.median(pip)), float(np.median(lat)), first

rows = []
def emit(w, peer, res=None, err=None):
    row = {"workload": w, "peer": peer}
    if err: row["error"] = err[:200]
    else: row.update(pipelined_us=round(res[0], 2), latency_us=round(res[1], 2), first_call_ms=round(res[2], 1))
    rows.append(row); print(json.dumps(row), flush=True)
    if A.out:
        with open(A.out, "w") as f: f.writelines(json.dumps(x) + "\n" for x in rows)

def run_torch(mode, data):
    import torch, torch.nn.functional as F
    dev = A.device
    sync = torch.cuda.synchronize if dev == "cuda" else (lambda: None)
    def cnd(d): return 0.5 * (1 + torch.erf(d * 0.7071067811865476))
    def bsch(S0, K, T, rr, v):
        sq = torch.sqrt(T); d1 = (torch.log(S0 / K) + (rr + .5 * v * v) * T) / (v * sq); d2 = d1 - v * sq
        disc = K * torch.exp(-rr * T); n1, n2 = cnd(d1), cnd(d2)
        return S0 * n1 - disc * n2, disc * (1 - n2) - S0 * (1 - n1)
    def tiny(x):
        for i in range(200): x = x * 0.999 - torch.sum(x) * 0.00195 + 0.25
        return x
    def branches(x, *ws):
        acc = 0
        for w in ws:
            y = x
            for _ in range(4): y = y @ w
            acc = acc + y
        return acc
    def mlp(x, w1, b1, w2, b2, w3, b3):
        return F.log_softmax(F.relu(F.relu(x @ w1 + b1) @ w2 + b2) @ w3 + b3, 1)
    def bn(x, g, b): return x * g.view(1, -1, 1, 1) + b.view(1, -1, 1, 1)
    def rb(x, w1, g1, b1, w2, g2, b2):
        y = F.relu(bn(F.conv2d(x, w1, padding=1), g1, b1)); return F.relu(bn(F.conv2d(y, w2, padding=1), g2, b2) + x)
    def sweep(x):
        y = x.clone(); y[1:-1, 1:-1] = .25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]); return y
    def sweeps50(x):
        for _ in range(50): x = sweep(x)
        return x
    def last_change(x):
        for _ in range(49): x = sweep(x)
        y = sweep(x); return y, (y - x).abs().amax()
    fns = {
        "add_50k": lambda a, b: a + b, "add_50k_host": lambda a, b: a + b,
        "conv_seed": lambda x, w, b: F.relu(F.conv2d(x, w, b, padding=1)),
        "conv_seed_host": lambda x, w, b: F.relu(F.conv2d(x, w, b, padding=1)),
        "saxpy_chain": lambda x: torch.tanh(1.5 * x + .3) * torch.sigmoid(x) - x * x * .5 + torch.exp(-torch.abs(x)),
        "black_scholes": bsch, "softmax": lambda x: torch.softmax(x, 1),
        "layernorm": lambda x, g, b: F.layer_norm(x, (x.shape[1],), g, b),
        "rmsnorm_bf16": lambda x, g: (x.float() * torch.rsqrt((x.float() ** 2).mean(1, keepdim=True) + 1e-5)).to(x.dtype) * g,
        "sum_all": lambda x: x.sum(), "colsum": lambda x: x.sum(0), "transpose_add": lambda x, y: x + y.t(),
        "tiny_chain": tiny, "branches": branches, "mlp": mlp,
        "gemm_gelu_bf16": lambda x, w, b: F.gelu(x @ w + b, approximate="tanh"),
        "attention_bf16": lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        "resnet_block": rb,
    }
    for w, host in data.items():
        if only and w not in only: continue
        try:
            torch.backends.cuda.matmul.allow_tf32 = w in TF32; torch.backends.cudnn.allow_tf32 = w in TF32
            torch.backends.cudnn.benchmark = True
            with torch.no_grad():
                dt = torch.bfloat16 if w in BF16 else torch.float32
                cpu = [torch.from_numpy(h).to(dt) for h in host]
                dev_in = [c.to(dev) for c in cpu]
                if w.startswith("jacobi"):
                    step = sweeps50 if w == "jacobi" else last_change
                    f = step
                    if mode.startswith("compile"): f = torch.compile(step)
                    if mode in ("graph_pinned", "graph_nhwc"): continue
                    if mode == "graph" and dev == "cuda":
                        st = dev_in[0].clone(); s = torch.cuda.Stream()
                        with torch.cuda.stream(s):
                            step(st)
                        torch.cuda.synchronize(); g = torch.cuda.CUDAGraph()
                        with torch.cuda.graph(g): o = step(st)
                        def f(x, g=g, st=st, o=o):
                            st.copy_(x); g.replay(); return o
                    if w == "jacobi":
                        def call():
                            x = dev_in[0]
                            for _ in range(20): x = f(x)
                            return x
                    else:
                        def call():
                            x = dev_in[0]
                            for rounds in range(1, 41):
                                x, d = f(x)
                                if d.item() < 2.6e-4: break
                            assert rounds * 50 == 1400, rounds
                            return x
                    emit(w, "torch_" + mode, measure(call, sync)); continue
                f = fns[w]
                if mode == "graph_pinned" and w not in HOST: continue
                if mode == "graph_nhwc":
                    if w not in ("conv_seed", "resnet_block"): continue
                    dev_in = [d.to(memory_format=torch.channels_last) if d.dim() == 4 else d for d in dev_in]
                if mode == "compile": f = torch.compile(f, dynamic=False)
                if mode == "compile_graph":
                    if dev != "cuda": continue
                    for d in dev_in: torch._dynamo.mark_static_address(d)
                    f = torch.compile(f, mode="reduce-overhead", dynamic=False)
                if mode.startswith("graph"):
                    if dev != "cuda": continue
                    s = torch.cuda.Stream()
                    with torch.cuda.stream(s):
                        for _ in range(3): f(*dev_in)
                    torch.cuda.synchronize(); g = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(g): out = f(*dev_in)
                    if w in HOST:
                        pin = torch.empty(out.shape, dtype=out.dtype, pin_memory=True) if mode == "graph_pinned" else None
                        def call():
                            for d, c in zip(dev_in, cpu): d.copy_(c, non_blocking=True)
                            g.replay()
                            if pin is None: return out.cpu()
                            pin.copy_(out, non_blocking=True); torch.cuda.synchronize(); return pin
                    else: call = g.replay
                elif w in HOST: call = lambda: f(*[c.to(dev) for c in cpu]).cpu()
                else: call = lambda: f(*dev_in)
                emit(w, "torch_" + mode, measure(call, sync))
        except Exception as e: emit(w, "torch_" + mode, err=repr(e))
        finally:
            dev_in = cpu = call = f = None
            if mode.startswith("compile"): torch._dynamo.reset()
            if dev == "cuda": torch.cuda.empty_cache()

def run_jax(data):
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax, jax.numpy as jnp
    if A.device == "cpu": jax.config.update("jax_platforms", "cpu")
    def cnd(d): return 0.5 * (1 + jax.lax.erf(d * 0.7071067811865476))
    def bsch(S0, K, T, rr, v):
        sq = jnp.sqrt(T); d1 = (jnp.log(S0 / K) + (rr + .5 * v * v) * T) / (v * sq); d2 = d1 - v * sq
        disc = K * jnp.exp(-rr * T); n1, n2 = cnd(d1), cnd(d2)
        return S0 * n1 - disc * n2, disc * (1 - n2) - S0 * (1 - n1)
    def tiny(x):
        for i in range(200): x = x * 0.999 - jnp.sum(x) * 0.00195 + 0.25
        return x
    def branches(x, *ws):
        acc = 0
        for w in ws:
            y = x
            for _ in range(4): y = y @ w
            acc = acc + y
        return acc
    relu = jax.nn.relu
    def conv(x, w): return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"))
    def bn(x, g, b): return x * g.reshape(1, -1, 1, 1) + b.reshape(1, -1, 1, 1)
    def ln(x, g, b):
        m = x.mean(1, keepdims=True); d = x - m; return d * jax.lax.rsqrt((d * d).mean(1, keepdims=True) + 1e-5) * g + b
    def att(q, k, v):
        q, k, v = (t.transpose(0, 2, 1, 3) for t in (q, k, v))
        return jax.nn.dot_product_attention(q, k, v, implementation="cudnn" if A.device == "cuda" else "xla")
    def sweep(x): return x.at[1:-1, 1:-1].set(.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]))
    def jac(x): return jax.lax.fori_loop(0, 1000, lambda i, y: sweep(y), x)
    def jacw(x):
        def body(s):
            y = jax.lax.fori_loop(0, 49, lambda i, y: sweep(y), s[0]); z = sweep(y); return z, jnp.abs(z - y).max(), s[2] + 1
        return jax.lax.while_loop(lambda s: (s[1] >= 2.6e-4) & (s[2] < 40), body, (x, jnp.float32(1e9), 0))[0]
    fns = {
        "add_50k": lambda a, b: a + b, "add_50k_host": lambda a, b: a + b,
        "conv_seed": lambda x, w, b: relu(conv(x, w) + b.reshape(1, -1, 1, 1)),
        "conv_seed_host": lambda x, w, b: relu(conv(x, w) + b.reshape(1, -1, 1, 1)),
        "saxpy_chain": lambda x: jnp.tanh(1.5 * x + .3) * jax.nn.sigmoid(x) - x * x * .5 + jnp.exp(-jnp.abs(x)),
        "black_scholes": bsch, "softmax": lambda x: jax.nn.softmax(x, 1), "layernorm": ln,
        "rmsnorm_bf16": lambda x, g: (x.astype(jnp.float32) * jax.lax.rsqrt((x.astype(jnp.float32) ** 2).mean(1, keepdims=True) + 1e-5)).astype(x.dtype) * g,
        "sum_all": lambda x: x.sum(), "colsum": lambda x: x.sum(0), "transpose_add": lambda x, y: x + y.T,
        "tiny_chain": tiny, "branches": branches,
        "mlp": lambda x, w1, b1, w2, b2, w3, b3: jax.nn.log_softmax(relu(relu(x @ w1 + b1) @ w2 + b2) @ w3 + b3, 1),
        "gemm_gelu_bf16": lambda x, w, b: jax.nn.gelu(x @ w + b), "attention_bf16": att,
        "resnet_block": lambda x, w1, g1, b1, w2, g2, b2: relu(bn(conv(relu(bn(conv(x, w1), g1, b1)), w2), g2, b2) + x),
        "jacobi": jac, "jacobi_while": jacw,
    }
    for w, host in data.items():
        if only and w not in only: continue
        try:
            with jax.default_matmul_precision("tensorfloat32" if w in TF32 else ("default" if w in BF16 else "float32")):
                f = jax.jit(fns[w]); dt = jnp.bfloat16 if w in BF16 else jnp.float32
                box = [None]
                if w in HOST:
                    def call(): box[0] = np.asarray(f(*host))
                    sync = lambda: None
                else:
                    dev_in = [jnp.asarray(h, dt) for h in host]
                    def call(): box[0] = f(*dev_in)
                    sync = lambda: jax.block_until_ready(box[0])
                emit(w, "jax", measure(call, sync))
        except Exception as e: emit(w, "jax", err=repr(e))
        finally: dev_in = box = None

def run_cupy(data):
    import cupy as cp
    sync = cp.cuda.Device().synchronize
    @cp.fuse()
    def chain(x): return cp.tanh(1.5 * x + .3) * (1 / (1 + cp.exp(-x))) - x * x * .5 + cp.exp(-cp.abs(x))
    fns = {"add_50k": lambda a, b: a + b, "add_50k_host": lambda a, b: a + b, "saxpy_chain": chain,
           "sum_all": lambda x: x.sum(), "colsum": lambda x: x.sum(0), "transpose_add": lambda x, y: x + y.T}
    for w, f in fns.items():
        if only and w not in only: continue
        try:
            d = [cp.asarray(h) for h in data[w]]
            call = (lambda: cp.asnumpy(f(*[cp.asarray(h) for h in data[w]]))) if w in HOST else (lambda: f(*d))
            emit(w, "cupy", measure(call, sync))
        except Exception as e: emit(w, "cupy", err=repr(e))

def run_drjit(data):
    import drjit as dr
    from drjit import cuda, llvm
    Float = (cuda if A.device == "cuda" else llvm).Float
    def cnd(d): return 0.5 * (1 + dr.erf(d * 0.7071067811865476))
    def bsch(S0, K, T, rr, v):
        sq = dr.sqrt(T); d1 = (dr.log(S0 / K) + (rr + .5 * v * v) * T) / (v * sq); d2 = d1 - v * sq
        disc = K * dr.exp(-rr * T); n1, n2 = cnd(d1), cnd(d2)
        return S0 * n1 - disc * n2, disc * (1 - n2) - S0 * (1 - n1)
    def tiny(x):
        for i in range(200): x = x * 0.999 - dr.sum(x) * 0.00195 + 0.25
        return x
    fns = {"add_50k": lambda a, b: a + b, "add_50k_host": lambda a, b: a + b, "black_scholes": bsch, "tiny_chain": tiny,
           "saxpy_chain": lambda x: dr.tanh(1.5 * x + .3) * dr.rcp(1 + dr.exp(-x)) - x * x * .5 + dr.exp(-dr.abs(x)), "sum_all": lambda x: dr.sum(x)}
    for w, f in fns.items():
        if only and w not in only: continue
        try:
            g = dr.freeze(f); d = [Float(h.ravel()) for h in data[w]]; dr.eval(*d); box = [None]
            if w in HOST:
                def call(): box[0] = np.array(g(*[Float(h) for h in data[w]]))
            else:
                def call():
                    box[0] = g(*d); dr.eval(box[0])
            emit(w, "drjit", measure(call, dr.sync_thread))
        except Exception as e: emit(w, "drjit", err=repr(e))

data = inputs()
if "torch_eager" in peers: run_torch("eager", data)
if "torch_graph" in peers:
    for m in ("graph", "graph_pinned", "graph_nhwc"): run_torch(m, data)
if "jax" in peers: run_jax(data)
if "cupy" in peers: run_cupy(data)
if "drjit" in peers: run_drjit(data)
if "torch_compile" in peers: run_torch("compile", data)
if "torch_compile_graph" in peers: run_torch("compile_graph", data)
