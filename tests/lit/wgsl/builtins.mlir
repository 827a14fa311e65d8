// RUN: TG_ROUNDTRIP

// CHECK: wgsl.kernel @builtins workgroup_size = [8, 8, 1] access = [] attributes {note = "kept"} {
wgsl.kernel @builtins workgroup_size = [8, 8, 1] access = [] attributes {note = "kept"} {
  // CHECK-NEXT: %group = wgsl.workgroup_id dim = 0
  %group = wgsl.workgroup_id dim = 0
  // CHECK-NEXT: %groups = wgsl.num_workgroups dim = 1
  %groups = wgsl.num_workgroups dim = 1
  // CHECK-NEXT: %local = wgsl.local_id dim = 2
  %local = wgsl.local_id dim = 2
  // CHECK-NEXT: %global = wgsl.global_id dim = 0
  %global = wgsl.global_id dim = 0
  // CHECK-NEXT: %index = wgsl.local_index
  %index = wgsl.local_index
  // CHECK-NEXT: %lane = wgsl.subgroup_lane
  %lane = wgsl.subgroup_lane
  // CHECK-NEXT: %size = wgsl.subgroup_size
  %size = wgsl.subgroup_size
}

// CHECK: wgsl.kernel @nothing workgroup_size = [1, 1, 1] access = [] {
wgsl.kernel @nothing workgroup_size = [1, 1, 1] access = [] {
}
